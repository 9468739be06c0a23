r"""Formulas of the docs: `$...$` in a line and `$$...$$` on lines of their own become MathML when the site is built.

Browsers draw MathML themselves, so that a page loads nothing for it. This is an extension of Python-Markdown, which
Zensical finds from the project's folder: `python -m zensical build`. GitHub shows the same source. A formula that does
not convert ends the build. A dollar sign that opens no formula stays one, and `\$` is one everywhere.
"""

import re
from typing import Any
from xml.etree import ElementTree as ET

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor

DISPLAY = r"\$\$\s*([^$]+?)\s*\$\$"
# A formula has no space inside its dollar signs, and no letter or number outside of them: "$5 or $6" is none.
INLINE = r"(?<![\w$\\])(\(?)\$([^\s$](?:[^$\n]*[^\s$\\])?)\$(?![\w$])([).,;:]*(?:-\w+)?)"
CHILDREN = {"mfrac": 2, "msub": 2, "msup": 2, "mover": 2, "munder": 2, "mroot": 2, "msubsup": 3, "munderover": 3}
ADJACENCIES = set("=<>≤≥≈≠∝∼∈→≪≫⪰⪯≻≺⊂⊆↦≔≡")  # noqa: RUF001
SIGNS = set("+−±·")  # noqa: RUF001
MENDED = {"~": "∼"}  # noqa: RUF001
ORDINARY = set("∞∂∇")
OPENING = ADJACENCIES | SIGNS | set("([{,;‖|")
LONG = 20  # characters; a longer formula in a line of text may be broken before a relation or a sign


class UnknownFormulaError(ValueError):
    """A formula that is not understood: the build ends here, not with a page that shows backslashes."""


def mathml(tex: str, display: bool = False) -> list[str]:
    """Return a formula as MathML, in several pieces where a line of text may break."""
    if tex.count("{") != tex.count("}"):
        raise UnknownFormulaError(f"the braces of ${tex}$ do not match")
    fenced = re.sub(r"(?<!left)\\l([vV]ert)(?![a-z])", r"\\left\\l\1", tex)
    fenced = re.sub(r"(?<!right)\\r([vV]ert)(?![a-z])", r"\\right\\r\1", fenced)
    try:
        made = convert(fenced, xmlns="", display="block" if display else "inline").replace(' xmlns=""', "", 1)
        root = ET.fromstring(made)
    except Exception as error:
        raise UnknownFormulaError(f"${tex}$ does not convert: {type(error).__name__} {error}") from error
    for element in list(root.iter()):
        if "\\" in (element.text or "") or len(element) != CHILDREN.get(element.tag, len(element)):
            raise UnknownFormulaError(f"${tex}$ has a command that is not known, or misses a part")
        _space(element)
    return [ET.tostring(piece, encoding="unicode") for piece in ([root] if display else _pieces(root))]


def _space(parent: ET.Element) -> None:
    """Mend what the converter leaves out: relations as operators, signs before one term, space beside a function."""
    before = "("
    for child in list(parent):
        base = child[0] if child.tag in ("msub", "msup", "msubsup", "munder") else child
        text = base.text = MENDED.get(base.text or "", base.text or "")
        upright = text.isascii() and (base.tag == "mo" or len(text) > 1)
        named = base.tag in ("mi", "mo") and text.isalpha() and upright
        if text in ADJACENCIES | SIGNS:
            base.tag = "mo"
        elif named or text in ORDINARY:
            base.tag = "mi"
        if named or "Α" <= text <= "Ω":  # noqa: RUF001
            base.set("mathvariant", "normal")
        if text == "/" or (text == "," and len(parent) == 1):
            base.attrib.update(lspace="0", rspace="0")
        if text in SIGNS and before in OPENING:
            base.set("form", "prefix")
        beside = before in ("term", "function") if named else before == "function" and base.tag != "mo"
        if beside and parent.tag == "mrow":
            parent.insert(list(parent).index(child), ET.Element("mspace", width="0.17em"))
        before = "function" if named else text if base.tag == "mo" else "term"


def _pieces(root: ET.Element) -> list[ET.Element]:
    """Return a long formula cut before its outer relations and signs, where a narrow screen can break the line."""
    if len("".join(root.itertext())) <= LONG:
        return [root]
    pieces, seen = [_empty()], ""
    for child in root[0]:
        sign = child.text if child.tag == "mo" and child.get("form") is None else None
        if seen and seen.count("(") == seen.count(")") and sign in ADJACENCIES | SIGNS:
            child.set("form", "infix")
            pieces.append(_empty())
        pieces[-1][0].append(child)
        seen += "".join(child.itertext())
    return pieces


def _empty() -> ET.Element:
    element = ET.Element("math", display="inline")
    ET.SubElement(element, "mrow")
    return element


class _Display(InlineProcessor):
    def handleMatch(self, m: re.Match[str], data: str) -> tuple[str, int, int]:  # type: ignore[override]  # noqa: N802
        html = f'<span class="formula">{"".join(mathml(m[1], display=True))}</span>'
        return self.md.htmlStash.store(html), m.start(0), m.end(0)


class _Inline(InlineProcessor):
    def handleMatch(self, m: re.Match[str], data: str) -> tuple[str, int, int]:  # type: ignore[override]  # noqa: N802
        pieces = mathml(m[2])
        pieces[0] = m[1] + pieces[0]
        pieces[-1] += m[3]
        # A browser may break a line before and after <math>, also between it and a comma.
        html = "<wbr>".join(f'<span class="unbroken">{piece}</span>' for piece in pieces)
        return self.md.htmlStash.store(html), m.start(0), m.end(0)


class Formulas(Extension):
    """Formulas are read after code and before all else: no asterisk, underscore or backslash of them is Markdown."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        """Register both kinds of formulas, and `$` as a sign that a backslash keeps."""
        md.ESCAPED_CHARS.append("$")
        md.inlinePatterns.register(_Display(DISPLAY, md), "formula-display", 187)
        md.inlinePatterns.register(_Inline(INLINE, md), "formula-inline", 186)


def makeExtension(**settings: Any) -> Formulas:  # noqa: N802  (the name that Python-Markdown looks for)
    """Return the extension."""
    return Formulas(**settings)
