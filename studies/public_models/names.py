"""The public files this project has measured, by the start of their SHA-256, and what is claimed.

A claim is quoted from the repository the file is in; no file is bundled.
"""

from __future__ import annotations

_YINGLUNZ = "yinglunz/A-456-Parameter-Transformer-Solves-10-Digit-Addition"
_REZABYT, _EVINDOR = "rezabyt/digit-addition-311p", "evindor/MicroAdder"
_STAGHADO = "staghado/minimal-ten-digit-addition-transformer"
_JACKCAI = "JackCai1206/smallest-addition-transformer"
_ARENA = "callummcdougall/ARENA_2.0"
_BOARD = "10,010 of 10,010"
Known = dict[str, str | int | None]


def _known(name: str, source: str, parameters: int | None, claimed: str | None) -> Known:
    return {"name": name, "source": source, "parameters": parameters, "claimed": claimed}


KNOWN: dict[str, Known] = {
    "8b71f241f62e043b": _known("adder 582", _YINGLUNZ, 582, "99,999 of 100,000"),
    "a1a96a61986f2d0e": _known("adder 512", _YINGLUNZ, 512, "99,988 of 100,000"),
    "3eb4c88af4a6dc39": _known("adder 456, seed 43", _YINGLUNZ, 456, "100,000 of 100,000"),
    "562d5b40c2e5d39f": _known("adder 456, seed 44", _YINGLUNZ, 456, "99,958 of 100,000"),
    "95288afcaaca9c12": _known("adder 311", _REZABYT, 311, "99,999 of 100,000"),
    "dc6ac84f784b50d9": _known("MicroAdder 226", _EVINDOR, 226, "10,008 of 10,010"),
    "386c909cecc3e1ac": _known("MicroAdder 203", _EVINDOR, 203, "1,000 of 1,000"),
    "8624d1cc452deb3d": _known("MicroAdder 170", _EVINDOR, 170, "100 %"),
    "c80a709d80133843": _known("MicroAdder 141", _EVINDOR, 141, "100 %"),
    "a2d5669d8dfa0e50": _known("MicroAdder 133", _EVINDOR, 133, "100 %"),
    "3f03557170be2636": _known("MicroAdder 100", _EVINDOR, 100, _BOARD),
    "1244e5d6f5ef2276": _known("MicroAdder 90", _EVINDOR, 90, _BOARD),
    "ce91dd4cf2de4eed": _known("MicroAdder 80", _EVINDOR, 80, _BOARD),
    "70247c6b5c57442e": _known("MicroAdder 75", _EVINDOR, 75, _BOARD),
    "7151fc8550cb37ad": _known("MicroAdder 74", _EVINDOR, 74, _BOARD),
    "c42d99bc1aee9238": _known("MicroAdder 67", _EVINDOR, 67, _BOARD),
    "a089a4f3c299e2d3": _known("MicroAdder 57", _EVINDOR, 57, _BOARD),
    "787287568145252e": _known("staghado 122", _STAGHADO, 122, "10,005 of 10,010"),
    "0b40cefb1107fa66": _known("staghado 122, L-BFGS", _STAGHADO, 122, "100 %"),
    "6f4bb08136580bf2": _known("staghado 137", _STAGHADO, 137, "99.73 %"),
    "d9eb08b1663a757c": _known("staghado 137, L-BFGS", _STAGHADO, 137, "100 %"),
    "9aaf627d110d088f": _known("staghado 146", _STAGHADO, 146, "99.98 %"),
    "0dba352fd888c296": _known("staghado 146, L-BFGS", _STAGHADO, 146, "100 %"),
    "6c3c23335dde2bb5": _known("staghado 155", _STAGHADO, 155, "99.92 %"),
    "92704cb8ca9eb58c": _known("staghado 155, L-BFGS", _STAGHADO, 155, "100 %"),
    "c86b1a482105a628": _known("staghado 173", _STAGHADO, 173, "99.93 %"),
    "1a506df712658a5c": _known("staghado 200", _STAGHADO, 200, "99.99 %"),
    "f8a1add47cf1795c": _known("staghado 228", _STAGHADO, 228, "100 %"),
    "47aac503503d4b6e": _known("JackCai 234", _JACKCAI, 234, None),
    "da31499966a297b8": _known("JackCai 248", _JACKCAI, 248, None),
    "ce210b92c769e13d": _known("JackCai 242", _JACKCAI, 242, "99.07 %"),
    "c10193659fe962dd": _known("JackCai 260", _JACKCAI, 260, "100.00 %"),
    "0acc75629bf0dd3e": _known("cumulative sum", _ARENA, None, None),
    "2e02564bcfab9028": _known("palindromes", _ARENA, None, None),
    "cb0acba5159758ba": _known("brackets", _ARENA, None, None),
}
