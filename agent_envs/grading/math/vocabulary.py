"""The vocabulary lists the signs, commands, units and words that are understood."""

_SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ"
_SUBSCRIPTS = "₀₁₂₃₄₅₆₇₈₉"
RAISED = str.maketrans(_SUPERSCRIPTS, "0123456789+-n")
LOWERED = str.maketrans(_SUBSCRIPTS, "0123456789")
RAISED_SIGNS, LOWERED_SIGNS = _SUPERSCRIPTS, _SUBSCRIPTS

GREEK = dict(
    zip(
        "αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΦΨΩ",
        (
            "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi chi psi "
            "omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega"
        ).split(),
        strict=True,
    )
)
_WIDE = {chr(0xFF00 + code - 0x20): chr(code) for code in range(0x21, 0x7F)}
_VULGAR = {"½": (1, 2), "⅓": (1, 3), "⅔": (2, 3), "¼": (1, 4), "¾": (3, 4), "⅕": (1, 5), "⅖": (2, 5), "⅗": (3, 5),
           "⅘": (4, 5), "⅙": (1, 6), "⅚": (5, 6), "⅛": (1, 8), "⅜": (3, 8), "⅝": (5, 8), "⅞": (7, 8)}  # fmt: skip
SIGNS = str.maketrans({
    **dict.fromkeys("−–—‐‑‒", "-"),
    **dict.fromkeys("×⋅·∙•∗", "*"),
    **dict.fromkeys("⁄∕", "/"),
    **dict.fromkeys("’‘′", "'"),
    **dict.fromkeys("“”", '"'),
    **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff£€¥", ""),
    "÷": "/",
    "∶": ":",
    "√": "\\sqrt ",
    "∛": "\\cbrt ",
    "∞": "\\infty ",
    "≤": "\\le ",
    "≥": "\\ge ",
    "≠": "\\ne ",
    "≈": "\\approx ",
    "∪": "\\cup ",
    "∈": "\\in ",
    "∅": "\\emptyset ",
    "ℝ": "\\mathbb{R}",
    "°": "^\\circ ",
    "±": "\\pm ",
    "∓": "\\mp ",
    "∠": "\\angle ",
    "△": "\\triangle ",
    "⟨": "\\langle ",
    "⟩": "\\rangle ",
    **_WIDE,
    **{sign: f"\\{word} " for sign, word in GREEK.items()},
    **{sign: f"\\frac{{{above}}}{{{below}}}" for sign, (above, below) in _VULGAR.items()},
})  # fmt: skip

# What a command is read as, where that is not its own name. "" is nothing at all.
ALIASES = {
    **dict.fromkeys(("dfrac", "tfrac", "cfrac", "sfrac", "nicefrac"), "frac"),
    **dict.fromkeys(("dbinom", "tbinom"), "binom"),
    **dict.fromkeys(("cdot", "times", "ast"), "*"),
    **dict.fromkeys(("leq", "leqslant", "leqq", "le"), "<="),
    **dict.fromkeys(("geq", "geqslant", "geqq", "ge"), ">="),
    **dict.fromkeys(("neq", "ne"), "!="),
    **dict.fromkeys(("lvert", "rvert", "vert"), "|"),
    **dict.fromkeys(("lbrace", "{"), "\\{"),
    **dict.fromkeys(("rbrace", "}"), "\\}"),
    **dict.fromkeys(("varnothing", "empty"), "emptyset"),
    **dict.fromkeys(("degree", "deg"), "circ"),
    **dict.fromkeys(
        (
            "left right big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr Biggl Biggr middle displaystyle textstyle "
            "scriptstyle limits quad qquad thinspace enspace space nobreak mathstrut boxed fbox mathbf mathit mathsf "
            "mathcal mathnormal boldsymbol bm pmb bf rm it ! , ; : ( ) [ ] > /"
        ).split(),
        "",
    ),
    "div": "/",
    "lt": "<",
    "gt": ">",
    "colon": ":",
    "lbrack": "[",
    "rbrack": "]",
    "varepsilon": "epsilon",
    "varphi": "phi",
    "vartheta": "theta",
    "infinity": "infty",
    "inf": "infty",
    "ceiling": "ceil",
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "union": "cup",
    "%": "%",
    "_": "_",
    "&": "&",
    "#": "#",
    "|": "|",
    " ": "",
    "\n": "",
}
PROSE = frozenset(
    ("text", "textbf", "textit", "textrm", "textnormal", "textsf", "mathrm", "mbox", "hbox", "operatorname")
)
ACCENTS = frozenset(
    ("overline", "bar", "vec", "hat", "widehat", "tilde", "overrightarrow", "mathbb", "dot", "underline")
)
TRIGONOMETRY = frozenset(
    "sin cos tan cot sec csc sinh cosh tanh coth arcsin arccos arctan arccot arcsec arccsc".split()
)
FUNCTIONS = TRIGONOMETRY | frozenset("ln log lg exp sqrt cbrt abs floor ceil max min gcd lcm det arg".split())
SYMBOLS = frozenset(GREEK.values()) | frozenset(("angle", "triangle", "ell", "hbar", "aleph", "imath", "jmath"))
# Runs of letters that are one command in plain text too.
PLAIN_COMMANDS = (FUNCTIONS | SYMBOLS | frozenset(("infty", "infinity", "inf", "union"))) - {
    "det", "arg", "nu", "xi", "mu", "eta", "rho", "tau", "chi", "psi", "imath", "jmath", "ell",
    "angle", "triangle",
}  # fmt: skip

UNITS = frozenset(
    (
        "mm cm dm km mg kg ml lb lbs oz ft in inch mi yd hr hrs min mins sec secs mph kph sq Hz kHz pct "
        "day days mile miles foot feet unit units inches yards meter meters metre metres degree degrees percent "
        "cent cents dollar dollars square cubic per hour hours minute minutes second seconds week weeks month months year "
        "years gram grams liter liters pound pounds ounce ounces gallon gallons euro euros radian radians"
    ).split()
)
MULTIPLES = {"dozen": 12, "hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
# Words that change the number or formula right before them, an s at their end left out: 5 squared is not 5, 5 feet squared is.
CHANGING = frozenset(
    """squared cubed factorial doubled tripled quadrupled halved half halve third fourth fifth sixth seventh eighth ninth
    tenth hundredth thousandth lakh crore""".split()
)
# Words that change what stands before them: never a unit, never a factor.
KEPT_WORDS = frozenset("and or not if mod am pm except without but base modulo to from of than is are no yes".split())
# Words of two or three letters; other such runs are products of variables.
SHORT_WORDS = frozenset(
    (
        "yes no odd one two six ten all none red sun mon tue wed thu fri sat jan feb mar apr jun jul aug sep oct nov dec "
        "the and or not any mod dne cat dog boy girl man men"
    ).split()
)
MATRICES = frozenset(("matrix", "pmatrix", "bmatrix", "Bmatrix", "smallmatrix", "array"))
