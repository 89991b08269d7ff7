"""A small SQL tokenizer and the rewriting built on it; strings, quoted names and comments are never touched."""
from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Iterable, Mapping, Optional

OVERLAY_DB = "e2e_overlay"

_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<comment>--[^\n]*|\#[!\x20][^\n]*|/\*.*?(?:\*/|\Z))
  | (?P<string>'(?:[^'\\]++|\\.|'')*+'|\$\$.*?\$\$)
  | (?P<quoted>`(?:[^`\\]++|\\.|``)*+`|"(?:[^"\\]++|\\.|"")*+")
  | (?P<number>\d[\w.]*)
  | (?P<word>\w+)
  | (?P<punct>.)
    """,
    re.VERBOSE | re.DOTALL,
)

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}


@dataclass(frozen=True)
class Token:
    kind: str
    text: str
    start: int
    end: int

    def is_word(self, *words: str) -> bool:
        return self.kind == "word" and self.text.upper() in words

    @property
    def name(self) -> str:
        """The identifier or string value that the token denotes."""
        if self.kind in ("quoted", "string"):
            return unquote(self.text)
        return self.text


def unquote(text: str) -> str:
    if text.startswith("$$"):
        return text[2:-2]
    quote, body = text[0], text[1:-1]
    out, i = [], 0
    while i < len(body):
        char = body[i]
        if char == "\\" and i + 1 < len(body):
            following = body[i + 1]
            out.append(_ESCAPES.get(following, following))
            i += 2
        elif char == quote:
            out.append(quote)
            i += 2
        else:
            out.append(char)
            i += 1
    return "".join(out)


def literal(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\0", "\\0") + "'"


def ident(name: str) -> str:
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def all_tokens(sql: str) -> list[Token]:
    return [Token(m.lastgroup or "", m.group(), m.start(), m.end()) for m in _TOKEN.finditer(sql)]


def tokens(sql: str) -> list[Token]:
    """The tokens that mean something."""
    return [t for t in all_tokens(sql) if t.kind not in ("space", "comment")]


def splice(sql: str, edits: Iterable[tuple[int, int, str]]) -> str:
    out, at = [], 0
    for start, end, text in sorted(edits):
        out += [sql[at:start], text]
        at = end
    return "".join(out) + sql[at:]


def is_name(token: Token) -> bool:
    return token.kind in ("word", "quoted")


_CLUSTER_FUNCTIONS = ("CLUSTER", "CLUSTERALLREPLICAS", "REMOTE", "REMOTESECURE")


def is_distributed(sql: str) -> bool:
    found = tokens(sql)
    return any(t.is_word(*_CLUSTER_FUNCTIONS) and n.text == "(" for t, n in zip(found, found[1:]))


def mentions(sql: str, table: str) -> bool:
    """Whether the text names system.<table>, before or after rewriting."""
    return any(is_name(t) and t.name == table for t in tokens(sql))


Name = tuple[str, str]


def rewrite(sql: str, tables: Mapping[Name, Name], functions: Mapping[str, str]) -> str:
    """Points (database, table) names to others and replaces calls without arguments by name."""
    found = tokens(sql)
    databases = {database for database, _ in tables}
    edits: list[tuple[int, int, str]] = []
    for i, token in enumerate(found):
        after = found[i + 1 : i + 3]
        if len(after) < 2:
            break
        before = found[i - 1].text if i else ""
        if token.kind == "word" and token.text in functions and after[0].text == "(" and after[1].text == ")":
            text = functions[token.text]
            rest = found[i + 3] if i + 3 < len(found) else None
            ends = rest is None or rest.text in (",", ")") or rest.is_word("FROM", "FORMAT", "SETTINGS")
            if ends and (before == "," or before.upper() in ("SELECT", "DISTINCT")):
                text += f" AS `{token.text}()`"  # the column keeps its name
            edits.append((token.start, after[1].end, text))
        elif token.kind in ("punct", "number") or token.name not in databases or after[1].kind == "punct":
            continue
        else:
            new = tables.get((token.name, after[1].name))
            # db.table, or clusterAllReplicas('c', db, table)
            dotted = is_name(token) and is_name(after[1]) and before != "." and after[0].text == "."
            if new is not None and (dotted or (before == "," and after[0].text == ",")):
                edits.append((token.start, token.end, ident(new[0])))
                if new[1] != after[1].name:
                    edits.append((after[1].start, after[1].end, ident(new[1])))
    return splice(sql, edits)


_WRITES = (
    "INSERT", "CREATE", "ALTER", "DROP", "RENAME", "EXCHANGE", "TRUNCATE", "ATTACH", "DETACH", "OPTIMIZE", "DELETE",
    "UPDATE", "REPLACE", "GRANT", "REVOKE", "SYSTEM", "KILL", "UNDROP", "MOVE", "BACKUP", "RESTORE",
)


def kind(sql: str) -> str:
    """Select, Insert, Exchange, … after the first word (WITH counts as Select)."""
    found = tokens(sql)
    word = next((t.text.upper() for t in found if t.kind == "word"), "")
    return "Select" if word == "WITH" else word.capitalize()


def is_statement(sql: str, *words: str) -> bool:
    """Whether the statement is exactly these words."""
    found = tokens(sql)
    return len(found) == len(words) and all(t.is_word(w) for t, w in zip(found, words))


def is_write(sql: str) -> bool:
    return kind(sql).upper() in _WRITES


@dataclass(frozen=True)
class OnCluster:
    cluster: str
    start: int
    end: int


def on_cluster(sql: str) -> Optional[OnCluster]:
    """The ON CLUSTER clause of a DDL statement."""
    if not is_write(sql) or kind(sql) == "Insert":
        return None
    found = tokens(sql)
    for i, token in enumerate(found[:-2]):
        if token.is_word("ON") and found[i + 1].is_word("CLUSTER") and found[i + 2].kind != "punct":
            return OnCluster(found[i + 2].name, token.start, found[i + 2].end)
    return None


def without_on_cluster(sql: str) -> str:
    clause = on_cluster(sql)
    if clause is None:
        return sql
    return sql[: clause.start].rstrip() + sql[clause.end :]


@dataclass(frozen=True)
class SettingsClause:
    values: dict[str, str]
    start: int
    end: int


def query_settings(sql: str) -> Optional[SettingsClause]:
    """The last SETTINGS a = 1, b = 'x' of the statement, outside of brackets, if it ends the statement."""
    found = tokens(sql)
    depth, at = 0, None
    for i, token in enumerate(found):
        depth += {"(": 1, ")": -1}.get(token.text, 0) if token.kind == "punct" else 0
        if depth == 0 and token.is_word("SETTINGS"):
            at = i
    if at is None:
        return None
    values: dict[str, str] = {}
    i = at + 1
    while i + 2 < len(found) and is_name(found[i]) and found[i + 1].text == "=":
        name, first = found[i].name, found[i + 2]
        i += 3
        if first.text == "-" and i < len(found):
            values[name] = "-" + found[i].text
            i += 1
        else:
            values[name] = first.name
        if i >= len(found) or found[i].text != ",":
            break
        i += 1
    return SettingsClause(values, found[at].start, found[i - 1].end)



def explicit_uuid(sql: str) -> Optional[Token]:
    """The literal of CREATE … UUID '…'."""
    found = tokens(sql)
    for token, value in zip(found, found[1:]):
        if token.is_word("UUID") and value.kind == "string":
            return value
        if token.text == "(":
            break
    return None


def engine_name(sql: str) -> str:
    """The table engine that a CREATE names."""
    found = tokens(sql)
    for i, token in enumerate(found[:-2]):
        if token.is_word("ENGINE") and found[i + 1].text == "=":
            return found[i + 2].text
    return ""
