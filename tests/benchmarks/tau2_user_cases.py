"""Constructed dialogues: three tasks, faults of each kind, and honest users whose words come near to one.

A line is a case, its parts separated by bars, its messages by slashes: "U: " is the user, "A: " the agent, and a message that
is a call is one. A case may go on in an indented line.
"""

RETAIL = {  # a row of our own, so that every word of it can be seen here
    "id": "lamp",
    "user_scenario": {
        "persona": None,
        "instructions": {
            "domain": "retail",
            "reason_for_call": "You want to cancel order #W0001, because you do not need the lamp any more.",
            "known_info": "You are Mira Holm, zip code 10115, e-mail mira.holm@example.org, born on May 3, 1980.",
            "unknown_info": "You do not know your user id.",
            "task_instructions": "You accept a refund of at least forty dollars on the card ending in 4321.",
        },
    },
    "evaluation_criteria": None,
}
TELECOM = {
    "id": "dead-phone",
    "user_scenario": {
        "persona": None,
        "instructions": {
            "domain": "telecom",
            "reason_for_call": "Your phone has no service. You want it to work again.",
            "known_info": "You are Ivo Maas with phone number 555-700-1003.",
            "unknown_info": None,
            "task_instructions": "Use your tools when the agent asks you to, and tell truthfully what they show.",
        },
    },
    "evaluation_criteria": None,
}
AIRLINE = {
    "id": "trip",
    "user_scenario": {
        "persona": None,
        "instructions": {
            "domain": "airline",
            "reason_for_call": "You want to move reservation QKTR07 from May 20 to a day later, for at most $150 more.",
            "known_info": "You are Ruth Alder, user id ruth_alder_0412.",
            "unknown_info": None,
            "task_instructions": "You pay with the gift card.",
        },
    },
    "evaluation_criteria": None,
}
SHORT = {
    "HI": "U: Hello, I want to cancel order #W0001, I do not need the lamp any more. I am Mira Holm.",
    "ASK": "A: Of course. May I have your zip code?",
    "SHALL": "A: Order #W0001 can be cancelled, and 49.50 dollars go back to your card. Shall I cancel it?",
    "DONE": "A: Order #W0001 has been cancelled. Is there anything else?",
    "BYE": "U: No, that is all, thank you! ###STOP###",
    "DEAD": "U: Hi, my phone has no service. I am Ivo Maas, 555-700-1003.",
    "FLY": "U: Hello, I am Ruth Alder, ruth_alder_0412. Please move my reservation QKTR07 from May 20 to a day later.",
}
# kind | what the report says | task | messages
CAUGHT = """
stopped_early | before the agent | RETAIL | HI ###STOP###
stopped_early | before the agent | TELECOM | DEAD ###OUT-OF-SCOPE###
stopped_early | yes | RETAIL | HI / SHALL / U: Yes, please. Thank you! ###STOP###
stopped_early | yes | RETAIL | HI / SHALL / U: ###STOP###
stopped_early | yes | AIRLINE | FLY / A: It costs $100 more. Would you like me to proceed (yes/no)? / U: Sure. ###STOP###
stopped_early | zip | RETAIL | HI / ASK / U: Thanks. ###STOP###
stopped_early | zip | RETAIL | HI / ASK / U: It is 10115. ###STOP###
stopped_early | why it called | RETAIL | U: Hello. / A: Hello! How are you? / U: Fine, goodbye. ###STOP###
unwarranted_transfer | transfer | RETAIL | HI / ASK / U: ###TRANSFER###
unwarranted_transfer | transfer | RETAIL | HI / A: I cannot transfer you to a human agent for this. /
    U: Fine. ###TRANSFER###
unwarranted_transfer | transfer | AIRLINE | FLY / A: That is not possible. / U: I see. ###TRANSFER###
unasked_action | reboot_device | TELECOM | DEAD / A: What does the status bar show? / U: check_status_bar() /
    U: reboot_device()
unasked_action | toggle_airplane_mode | TELECOM | U: check_status_bar() / U: toggle_airplane_mode()
unasked_action | reset_apn_settings | TELECOM | DEAD / A: Please restart your phone. / U: reboot_device() /
    U: reset_apn_settings()
unasked_action | reseat_sim_card | TELECOM | DEAD / A: Please do not take out the SIM card yet. / U: reseat_sim_card()
unasked_action | make_payment | TELECOM | DEAD / A: Let us look at the signal first. What does the status bar show? /
    U: make_payment()
ungrounded | restarted | TELECOM | DEAD / A: Please restart your phone. / U: I have restarted it, but nothing changed.
ungrounded | status bar shows | TELECOM | DEAD / A: What does the status bar show? / U: The status bar shows full signal.
ungrounded | mbps | TELECOM | DEAD / A: Please run a speed test; 120 Mbps would be good. / U: It is fast: 120 Mbps.
ungrounded | airplane mode | TELECOM | DEAD / A: Is airplane mode on? / U: It was, so I just turned off airplane mode.
"""
# task | messages
HONEST = """
RETAIL | HI / ASK / U: 10115. / SHALL / U: Yes, please. / DONE / BYE
RETAIL | HI / ASK / U: Sure, it's 10115, and my email is Mira.Holm@example.org. / SHALL / U: Yes! / DONE / U: ###STOP###
RETAIL | U: hi there, id like to cancel W0001 (the lamp) / ASK / U: 1 0 1 1 5 / SHALL / U: No, thank you. ###STOP###
RETAIL | U: Order number 0001, a lamp. Cancel please. / SHALL / U: No, I changed my mind, I will keep it. ###STOP###
RETAIL | HI / A: When were you born? / U: On the 3rd of May 1980. / A: Thank you. / U: So: 1980-05-03, 05/03/1980, 3 May.
RETAIL | HI / SHALL /
    U: Yes, I expect $40 or more on my card 4321, so $49.50 is fine; that is $9.50 more than I hoped for.
RETAIL | HI / A: The refund is $49.50 or $20.00. / U: So 69.50 dollars in all? I'd take about 50 dollars.
RETAIL | HI / A: Your user id is mira_holm_5521, your order holds item 6086499569. /
    U: Yes, mira_holm_5521 and 6086499569.
RETAIL | HI / SHALL / U: Yes, that is right, please go ahead. / A: Now your lamp. Shall I? /
    U: Yes, that is right, please go ahead. / A: And your chair? / U: Yes, that is right, please go ahead. / DONE / BYE
RETAIL | HI / A: I am transferring you to a human agent. / U: ###TRANSFER###
RETAIL | HI / A: transfer_to_human_agents(summary="no") / A: Please hold. / U: Thanks. ###TRANSFER###
RETAIL | HI / A: Would you like me to connect you with a specialist? / U: ###TRANSFER###
RETAIL | HI / A: I am sorry, I cannot cancel it, it has been shipped. / U: Oh. Then that is all. ###STOP###
RETAIL | HI / ASK / U: 10115 / ASK / U: 10115, as I said. / ASK / U: 10115!! / ASK / U: Goodbye. ###STOP###
RETAIL | HI / ASK / U: Never mind, I will try another time. ###STOP###
RETAIL | HI / SHALL / U: Yes, please. / SHALL / U: Yes, please. / SHALL / U: Yes, please. / DONE / BYE
RETAIL | HI / ASK / U: I am 100% sure that I told you 2 times at 10:30 am, since 2015 you never lose anything, 24/7.
RETAIL | HI / A: It has a 1080p screen, 500ml and 256GB. / U: I know, 4K and 1080p, 500 ml. It took 15 minutes to find it.
RETAIL | HI / A: Anything else? / U: Could you tell me what your return policy is? And has my order been processed?
RETAIL | HI / A: Hm. / U: I want to cancel order #W0001, please. / A: Hm. / U: I want to cancel order #W0001, please. /
    A: Hm. / U: I want to cancel order #W0001, please.
AIRLINE | FLY / A: May 21 costs $120 more, $60.00 each way. Shall I change it? / U: Yes, $120 from my gift card is fine. /
    A: Done: your reservation QKTR07 is for 2024-05-21 now. Anything else? / BYE
AIRLINE | U: Please move QKTR07 to 5/21, I am ruth_alder_0412. / A: Is flight HAT903 at 07:15 fine? / U: HAT903, yes. /
    A: It has been changed. Have a nice day! / U: ###STOP###
AIRLINE | U: I have reservation qktr07 on the 20th of May, and want to fly on May 21st instead. /
    A: The fee is two hundred dollars. / U: $200 is too much, I can pay 150 dollars at most. /
    A: I am sorry, that is not possible. / U: I see, bye. ###STOP###
TELECOM | DEAD / A: What does the status bar show? / U: check_status_bar() / U: The status bar shows Airplane Mode. /
    A: Then turn it off, please, and look again. / U: toggle_airplane_mode() / U: check_status_bar() /
    U: I turned off airplane mode, and have signal again. ###STOP###
TELECOM | DEAD / A: Please power-cycle your phone. / U: reboot_device() /
    U: I have restarted it. The status bar shows no signal.
TELECOM | DEAD / A: Step 1: please do this on your phone: set_network_mode_preference(mode="4g_5g_preferred") /
    U: set_network_mode_preference(mode="4g_5g_preferred") / U: I have done that. / A: Does it work now? /
    U: Yes, it works! ###STOP###
TELECOM | DEAD / A: Don't worry. Please take the SIM card out and put it in again. / U: reseat_sim_card() /
    U: I reseated the SIM card.
TELECOM | DEAD / A: Run a speed test. / U: run_speed_test() / U: The speed test says that there is no connection. /
    A: I will transfer you. / U: ###TRANSFER###
RETAIL | HI / ASK / U: I have to look that up, one moment, please. / A: And your e-mail? /
    U: I have to look that up, one moment, please. / A: And your name? / U: I have to look that up, one moment, please.
TELECOM | DEAD / A: Have you restarted it? / U: No, I have not restarted my phone yet. Should I?
"""


def cases(table):
    """Return the cases of a table, each the texts before its last bar, and its messages."""
    rows = table.strip().replace("/\n    ", "/ ").splitlines()
    return [(*row.split(" | ")[:-1], messages(row.split(" | ")[-1])) for row in rows]


def messages(text):
    """Return the messages of a case, the abbreviations written out."""
    return [_whole(part.strip()) for part in text.split(" / ")]


def _whole(part):
    name, blank, rest = part.partition(" ")
    return SHORT[name] + blank + rest if name in SHORT else part
