"""Patterns for an agent's words about a phone are listed here: things, verbs, and frames that change their meaning.

Every pattern is bounded, so that reading takes time in proportion to the text.
"""

import re

READING = {
    "airplane": "check_network_status", "data": "check_network_status", "roaming": "check_network_status",
    "saver": "check_data_restriction_status", "wifi_calling": "check_wifi_calling_status", "wifi": "check_wifi_status",
    "vpn": "check_vpn_status", "mode": "check_network_mode_preference", "network": "check_network_status",
    "speed": "run_speed_test", "sim": "check_sim_status", "apn": "check_apn_settings", "mms": "can_send_mms",
    "apps": "check_installed_apps", "payment": "check_payment_request", "bar": "check_status_bar",
}  # fmt: skip
TOGGLES = {
    "airplane": "toggle_airplane_mode", "data": "toggle_data", "roaming": "toggle_roaming",
    "saver": "toggle_data_saver_mode", "wifi_calling": "toggle_wifi_calling", "wifi": "toggle_wifi",
}  # fmt: skip
# Of each switch: what its reading tool shows where it is on, and where it is off.
SHOWN = {
    "airplane": ("Airplane Mode: ON", "Airplane Mode: OFF"), "wifi": ("Wi-Fi is ON", "Wi-Fi is turned OFF"),
    "data": ("Mobile Data Enabled: Yes", "Mobile Data Enabled: No"), "saver": ("mode is ON", "mode is OFF"),
    "roaming": ("Data Roaming Enabled: Yes", "Data Roaming Enabled: No"), "wifi_calling": ("turned ON", "turned OFF"),
    "vpn": ("ON and connected", ""),
}  # fmt: skip
ACTIONS = {"reboot": "reboot_device", "reseat": "reseat_sim_card", "reset": "reset_apn_settings", "pay": "make_payment"}


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


# The longer names first: "Wi-Fi calling" is not Wi-Fi, and "data saver" not mobile data.
THINGS = _any(
    r"(?P<airplane>\b(?:air ?plane|aeroplane|flight)[- ]?(?:mode|icon|button|symbol|switch|toggle)\b)",
    r"(?P<saver>\bdata[- ]?sav(?:er|ing)\b(?: mode)?|\bdata restrictions?\b|\blow[- ]data mode\b"
    r"|\brestrict(?:s|ed|ing)? .{0,15}?\bdata\b)",
    r"(?P<roaming>\b(?:data |international )?roaming\b)",
    r"(?P<wifi_calling>\bwi-?fi[- ]call(?:ing|s)\b|\bcalls? over wi-?fi\b)",
    r"(?P<wifi>\bwi-?fi\b)",
    r"(?P<vpn>\bvpn\b|\bvirtual private network\b)",
    r"(?P<mode>\b(?:preferred )?network (?:mode|preference|selection)\b(?: preference)?"
    r"|\bpreferred network\b(?: type)?|\bmode preference\b)",
    r"(?P<speed>\bspeed[- ]?tests?\b|\btest (?:the|your) speed\b"
    r"|\b(?:internet|data|download|connection|network) speed\b|\bhow fast\b"
    r"|\b(?:mobile data|internet|data connection|browsing|data)\b(?: is| now)* work(?:s|ing)?\b"
    r"|\bload(?:ing)? (?:a |any )?(?:web ?)?(?:page|site)s?\b)",
    r"(?P<data>\bdata(?= (?:on|off)\b)|\b(?:mobile|cellular|cell)[- ]data\b(?! (?:usage|plan|limit|allowance|speed|is used))"
    r"|\byour data\b(?! (?:usage|plan|limit|allowance|speed|is used|sav|restrict|roam|connect)))",
    r"(?P<bar>\bstatus bar\b|\bsignal (?:bars?|strength|icon|level)\b|\btop of (?:your|the) (?:screen|phone|display)\b"
    r"|\b(?:have|has|having|show|showing|shows|see|get|getting|got) (?:(?:a|any|full|good|enough|cell|cellular) ){0,3}"
    r"(?:signal|service|bars)\b|\bhow many bars\b)",
    r"(?P<network>\b(?:network|cellular|connection|connectivity) (?:status|connection|details|type|technology)\b"
    r"|\b(?:type|kind) of (?:cellular |mobile |cell )?network\b"
    r"|\b(?:which|what) (?:cellular |mobile )?network\b(?! (?:mode|preference)))",
    r"(?P<sim>\bsim\b(?:[- ]?cards?\b)?)",
    r"(?P<apn>\bapns?\b|\baccess point (?:name|settings?)\b)",
    r"(?P<apps>\binstalled apps?\b|\bapps? (?:are |is |that are |do you have )?installed\b"
    r"|\b(?:which|what|list of|list of your) apps\b)",
    r"(?P<mms>\bmms\b(?! (?:url|address|apn|settings?|permission|issue|problem))"
    r"|\b(?:picture|multimedia|photo) messag(?:es?|ing)\b"
    r"|\bsend(?:ing)? (?:me |yourself |us )?(?:a |an |another |any )?(?:picture|photo|image)s?\b)",
    r"(?P<payment>\bpayment requests?\b|\b(?:the|your|this|that|overdue|a|bill) payment\b"
    r"|\b(?:the|your|this|overdue|outstanding) (?:bill|invoice)\b)",
)
JOINT = _any(r"(,|;|:\s|\(|\)| - | – |—|→|\b(?:and|then|but|or|nor|so|finally|next|afterwards)\b)")
CYCLE = _any(
    r"\b(on|off)\s{0,3},?\s{0,3}(?:wait[^,.;]{0,40},?\s{0,3})?(?:and|then)\s(?:then\s)?(?:turn it\s)?(?:back\s)?"
    r"(?!\1)(on|off)\b"
)
EITHER = _any(r"\b(?:on or off|off or on|enabled or disabled|disabled or enabled)\b")
# Prohibitions and conditions by their form alone.
IDIOMS = _any(
    r"\b(?:don't|do not) forget to\b", r"\bwhy (?:don't|not) (?:you|we)\b", r"\bbefore (?:we|i)\b", r"\bnot sure\b",
    r"\bif you (?:haven't|don't mind|have not|can|could|would)\b(?: already| please)?",
    r"\bwithout (?:any )?(?:problems?|issues?|fail|losing)\b",
)  # fmt: skip

# Frames
FORBIDS = _any(
    r"\b(?:do not|don't|never|no need to|not need to|needn't|doesn't need|don't have to|without|avoid|instead of"
    r"|rather than|unless|not yet|should not|shouldn't|must not|mustn't|cannot|can't|won't|will not|wouldn't|hold off"
    r"|refrain|before)\b"
)
OFFERS = _any(
    r"\b(?:like|want|prefer|need|mind|allow|wish) (?:me|us)\b", r"\bif (?:i|we)\b",
    r"\bshall (?:i|we)\b", r"\b(?:should|may|can|could) i\b",
    r"\bmind if i\b", r"\bwilling\b", r"\bable to pay\b",
    r"\b(?:would|do) you (?:like|want|agree|consent|wish) to (?:pay|make|refuel|add|proceed|accept|go ahead)\b",
)  # fmt: skip
AGENT_DOES = _any(
    r"\b(?:i|we)(?:'ll| will| can| could| shall| would| may| might|'d like to|'d| need to| have to|'m going| am going| must)\b",
    r"\blet me (?!know)\b",
)
AGENT_DID = _any(
    r"\b(?:i|we)(?:'ve|'m|'re|'d| have| had| am| are| was| were| just| already| see| did| also| now| understand| know"
    r"| noticed| do)\b"
)
YOU_ARE_ASKED = _any(
    r"\b(?:(?:need|like|want|require) you to|(?:i'll|i will|like to|to) ask you|have you|if you|please|try|recommend"
    r"|suggest|let's|start (?:by|with)|you(?:'ll)? (?:can|could|should|need|must|may|will|try))\b"
)
CAN_YOU = _any(r"\b(?:can|could|would|will) you\b", r"\bplease\b", r"\bhave you tried\b")
THANKS = _any(
    r"\b(?:thanks?(?: you)? for|now that|since|because|glad|(?:after|following) (?:the|that|this|your) (?:reboot|restart))\b"
)
PURPOSE = _any(r"^\s*(?:that )?you(?:'ll)? (?:can|could|will|may|are able)\b")
CONDITION = _any(r"^\W{0,9}(?:please )?(?:if|in case|when|whenever|should|provided)\b")
# A condition is cut from its sentence where it tells a state that the phone, or its owner, can be asked for.
STATED = _any(
    r"\b(?P<how>(?:but )?(?:only )?(?:if|in case|when(?:ever)?|unless|provided(?: that)?|as long as|so long as)"
    r"|should (?!i\b|we\b|you\b|be\b)(?=(?:\S+ ){1,4}?be\b))\s(?P<what>[^,;.!?()]{2,80}?)"
    r"(?=\s*(?:[,;.!?()]|$|\bplease\b|\bthen\b|\botherwise\b|\b(?:could|can|would) you\b))"
)
OTHERWISE = _any(r"\b(?:otherwise|if not|or else)\b,?")
ABROAD = _any(
    r"\b(?:abroad|overseas|travell?ing|roaming in another|outside (?:of )?(?:the|your) (?:home )?(?:country|us|states))\b"
)
AT_HOME = _any(r"\bat home\b", r"\bin (?:the (?:us|united states)|your home country)\b")
IS_NOT = _any(r"\b(?:not|never)\b", r"n't\b")
IS_OFF = _any(r"\b(?:off|disabled|inactive|deactivated|disconnected)\b")
IS_ON = _any(r"\b(?:on|enabled|active|activated|connected|running)\b")
NO_SIGNAL = _any(r"\b(?:no|any|without) (?:\w+ )?(?:signal|service|bars|network)\b")
LACKS = _any(
    r"\b(?:lacks?|lacking|missing|without|not (?:granted|allowed|enabled)|doesn't have|does not have|isn't|off|denied)\b"
)
MODE_IS = _any(r"\b(?P<two>2g)\b|\b(?P<three>3g)\b|\b(?P<auto>4g ?/ ?5g|5g)\b|\b(?P<four>4g|lte)\b")
FAILURE = _any(
    r"\b(?:doesn't|does not|didn't|did not|don't|isn't|is not|aren't)\b.{0,40}\b"
    r"(?:work|help|fix|solve|resolve|change|improve|come)",
    r"\bstill (?:not|no|slow|fail|can't|cannot|doesn't|having|have|experienc|unable|see|isn't|persist)",
    r"\b(?:persists?|fails|continues?)\b",
)
OTHER_SUBJECT = _any(
    r"\b(?:it|this|that|which|they|these|mode|doing so)(?:'ll| will| can| may| might| would| could)\b",
)
PRONOUN = _any(r"\b(?:it|them|this|that|these|both|so)\b")
CHECK_IT = _any(r"\b(?:check|review|open|view|look at|verify) (?:it|them|this|that|these|both)\b")

# Verbs
GERUND = _any(r"\b(?:try|trying|tried|by|start|begin|consider|after|recommend|suggest|mind|about|with)\b")
_SURE = r"\b(?:make sure|ensure|be sure|keep|leave|set)\b.{0,80}?"
_OUGHT = r"\b(?:should|must|needs? to|has to|have to) be (?:turned |switched |set |set to )?"
OFF = _any(
    r"\b(?:turn|switch|toggl)(?:e|ing)?\b(?: \S+){0,7}? off\b", r"\b(?:disabl|deactivat)(?:e|ing)\b",
    r"\b(?:get(?:ting)? out of|exit(?:ing)?|(?:disconnect|stop)(?:ing)?)\b",
    rf"{_SURE}\b(?:off|disabled|deactivated|disconnected|not (?:in|on|enabled|active|connected))\b",
    rf"{_OUGHT}(?:off|disabled|deactivated|disconnected)\b",
)  # fmt: skip
ON = _any(
    r"\b(?:turn|switch|toggl)(?:e|ing)?\b(?: \S+){0,7}? on\b", r"\b(?:re-?)?(?:enabl|activat)(?:e|ing)\b",
    r"\b(?:re)?connect(?:ing)?\b",
    rf"{_SURE}\b(?:on|enabled|active|activated|connected)\b",
    rf"{_OUGHT}(?:on|enabled|active|activated)\b",
)  # fmt: skip
CYCLED = _any(r"\b(on_then_off|off_then_on)\b")
FLIP = _any(r"\btoggl(?:e|ing)\b")
CHECK = _any(
    r"\b(?:double-?check|re-?check|check(?:ing)?|verify|confirm|look(?:ing)? (?:at|for|in|up)|take a look|tell me"
    r"|tell us|let me know|see (?:if|whether|what|which)|report|read|view|share|describe|find out|inform me|show me"
    r"|run(?:ning)?|perform|do (?:a|an|another)|test(?:ing)?|try|open|review|send(?:ing)?|observe)\b"
)
VERBS = {
    "reboot": _any(
        r"\bre-?(?:boot|start)(?:ing)?\b", r"\bpower[- ]?cycl(?:e|ing)\b",
        r"\b(?:have|did) you (?:\w+ ){0,2}(?:restarted|rebooted)\b",
        r"\b(?:turn|switch|power)(?:ing)? (?:it|(?:your|the) (?:phone|device)) off_then_on\b",
        r"\b(?:turn|switch|power)(?:ing)? (?:off|off_then_on) (?:your|the) (?:phone|device)\b",
        r"\b(?:turn|switch|power)(?:ing)? (?:your|the) (?:phone|device) off\b",
    ),
    "reseat": _any(
        r"\bre-?(?:seat|insert)(?:ing)?\b", r"\b(?:remov|tak|pull|eject|popp?)(?:e|ing)?\b(?: \S+){0,3}? sim\b",
        r"\b(?:insert|put)(?:t?ing)?\b(?: \S+){0,3}? sim\b.{0,20}\b(?:back|again|in)\b",
    ),
    "reset": _any(
        r"\b(?:reset(?:ting)?|restor(?:e|ing))\b(?: \S+){0,6}? (?:apns?|access point)\b",
        r"\bapns?\b.{0,40}\b(?:reset|default)\b",
    ),
    "pay": _any(
        r"\bpay(?:ing)?\b(?=\W{0,3}(?:$|(?:it|now|the|this|that|your|off|for|usd|via|through)\b|\$))",
        r"\b(?:mak|complet|accept|approv|submit|authoriz|process)(?:e|ing|ting)? (?:\w+ ){0,3}?payments?\b"
        r"(?! requests? (?:is|was|has))",
        r"\b(?:settl(?:e|ing) (?:the|your|this)|(?:accept|approve) (?:it|this|that|the request))\b",
    ),
}  # fmt: skip
RESET_IT = _any(r"\b(?:reset(?:ting)?|restor(?:e|ing)) (?:it|them|these|those|this)\b")
SIM_OUT = _any(r"\b(?:missing|not (?:inserted|detected|seated|in)|no sim|loose|isn't (?:inserted|detected)|out)\b")

# Settings with a value
_SET = (
    r"\b(?:set|setting|change|changing|switch|switching|select|selecting|choose|choosing|put|update|updating|use|using"
    r"|move|pick|make|adjust)\b"
)
_CHOICES = (
    r"(?:\b(?P<auto>4g ?(?:/|and|or|\+|,|&|-) ?5g|5g ?(?:/|and|or|\+|,|&|-) ?4g|4g_5g_preferred|automatic)\b"
    r"|\b(?P<four>4g_only|4g|lte)\b|\b(?P<five>5g)\b|\b(?P<three>3g)\b|\b(?P<two>2g)\b)"
)
MODE_TO = _any(rf"{_SET}.{{0,120}}?\bto\b.{{0,40}}?{_CHOICES}")
MODE = _any(rf"{_SET}.{{0,90}}?{_CHOICES}")
MODES = {"auto": "4g_5g_preferred", "five": "4g_5g_preferred", "four": "4g_only", "three": "3g_only", "two": "2g_only"}
GRANT = _any(
    r"\b(?:grant|allow|enabl|giv|add|activat|provid)(?:e|ing)?\b", r"\bturn(?:ing)? on\b",
    rf"{_SURE}\b(?:has|have|granted|allowed|enabled|on)\b",
)  # fmt: skip
PERMIT = _any(
    r"\bpermissions?\b", r"\b(?:allow|grant|give|let)\b.{0,80}\b(?:storage|sms)\b", r"\b(?:storage|sms) access\b"
)
APP = _any(r"\b(?:messag(?:ing|es?|er)|browser)(?:'s)?(?: app\b|'s)", r"\b(?:messaging|browser)\b")
# Every sentence speaks of a phone and a network: as permissions they are named so.
NAMED = {
    "sms": _any(r"\bsms\b"), "storage": _any(r"\bstorage\b"),
    "phone": _any(r"\bphone (?:and \w+ )?permissions?\b"), "network": _any(r"\bnetwork (?:and \w+ )?permissions?\b"),
}  # fmt: skip
