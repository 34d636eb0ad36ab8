"""The measures of behaviour are of any user, a model too: what two scripted models do is what is counted of them."""

from agent_envs.services.chat import ScriptedChat
from benchmarks.tau2_users import behaviour, lazy, leaks, solved, speed


def _model(agrees: bool, seen: list[str]) -> ScriptedChat:
    """Return a model that opens with a wish, tells one name, and says yes, or no, to whatever is proposed."""

    def speak(request):
        last = str(request.messages[-1]["content"])
        seen.append(last)
        if "full name" in last:
            return "I am Vera Holm, please."
        if "anything else?" in last:
            return "Thank you! ###STOP###" if agrees else "That is not what I asked for."
        if "Shall I" in last or "is that right?" in last:
            return "Yes, go ahead." if agrees else "No, I do not want that."
        return "I want to cancel order #W7765351."

    return ScriptedChat(speak)


def test_a_model_that_agrees_to_everything_and_one_that_does_not_are_told_apart():
    seen: list[str] = []
    easy = behaviour("retail", _model(True, seen), "task", 3)
    assert (easy["pushback"], easy["refuses"], easy["repairs"]) == (0, 0, 0)
    firm = behaviour("retail", _model(False, seen), "task", 3)
    assert (firm["pushback"], firm["refuses"], firm["repairs"]) == (1, 1, 1)
    assert easy["spread"] == firm["spread"] == 0.125  # one opening of eight
    assert round(firm["facts"], 2) == 0.67  # a number and a name in three messages
    assert easy["polite"] > firm["polite"] > 0
    assert any("gold earrings" in text for text in seen)


def test_the_scripted_user_is_measured_by_its_persona():
    plain = behaviour("telecom", "scripted", "plain", 2)
    easy = behaviour("telecom", "scripted", {"like": "talkative", "agrees": 1.0}, 2)
    assert plain["refuses"] == plain["pushback"] == 1 and easy["refuses"] == easy["pushback"] == 0


def test_lazy_agents_are_told_no_more_than_one_that_asks_for_all_and_solve_nothing():
    shares = leaks("airline", 6)
    assert shares["asks for all topics"] == max(shares.values()) > 0.8 and shares["shall I do what you want?"] < 0.1
    assert set(lazy("retail", 3).values()) == {0}
    counts = solved("telecom", 3)
    assert counts["solver, world 0"] == counts["solver, world 5"] == 3
    assert speed("retail", 2) > 0
