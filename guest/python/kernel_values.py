"""kernel_values.py - a value as a MIME bundle: text, and the richer forms that its type offers.
Loaded by kernel.py, which is `kernel` here.

Every function here runs guest code (reprs); what it raises is the cell's error. A text that is too
long is cut, a picture or JSON that is too large is left out; both are named in the second result.
"""
import base64
import datetime
import json
import math
import sys

cut, quote = kernel.cut, kernel.quote
JSON_MAX = 1 << 20
PICTURE_MAX = 10 << 20  # in base64
DEPTH_MAX = 50
DATA = "application/vnd.bailey.data+json"
CHART = "application/vnd.bailey.chart+json"

TEXTS = ("text/plain", "text/html", "text/markdown", "text/latex", "image/svg+xml")
METHODS = (("_repr_html_", "text/html"), ("_repr_markdown_", "text/markdown"),
           ("_repr_svg_", "image/svg+xml"), ("_repr_png_", "image/png"),
           ("_repr_jpeg_", "image/jpeg"), ("_repr_latex_", "text/latex"),
           ("_repr_json_", "application/json"))
dumps, b64encode = json.dumps, base64.b64encode


class Bundle:
    """MIME type to JSON text, in order, and which of them were cut."""

    def __init__(self):
        self.data, self.truncated = {}, []

    def add(self, mime, value):
        if value is None:
            return
        if isinstance(value, (bytes, bytearray, memoryview)):
            if mime.startswith("text/") or mime.endswith("+xml"):
                value = bytes(value).decode("utf-8", "replace")
            else:
                value = b64encode(bytes(value)).decode("ascii")
        if mime == "application/json" or mime.endswith("+json"):
            self.add_json(mime, value)
        elif mime.startswith("image/") and mime not in TEXTS:
            self.add_picture(mime, str(value))
        else:
            self.add_text(mime, value if isinstance(value, str) else str(value))

    def add_text(self, mime, text):
        text, is_cut = cut(text)
        self.data[mime] = quote(text)
        if is_cut:
            self.truncated.append(mime)

    def add_picture(self, mime, text):
        if len(text) > PICTURE_MAX:
            self.truncated.append(mime)
        else:
            self.data[mime] = quote(text.replace("\n", ""))

    def add_json(self, mime, value):
        text = dumps(plain(value))
        if len(text) > JSON_MAX:
            self.truncated.append(mime)
        else:
            self.data[mime] = text


def plain(value, depth=0):
    """A value that JSON can represent: no NaN, no NUL, dates in ISO 8601, NumPy numbers as numbers."""
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return cut(value)[0]
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if depth > DEPTH_MAX:
        return repr(value)
    if isinstance(value, dict):
        return {cut(str(key))[0]: plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item, depth + 1) for item in value]
    if isinstance(value, (datetime.date, datetime.time)):
        return None if value != value else value.isoformat()  # NaT is not equal to itself
    for method in ("tolist", "item", "to_list"):  # arrays, scalars, columns
        convert = getattr(type(value), method, None)
        if convert is not None:
            other = convert(value)
            return plain(other, depth + 1) if other is not value else repr(value)
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode("utf-8", "replace")
    return cut(str(value))[0]


def text_of(value):
    """repr() that does not build the part of a long builtin container that would be cut."""
    kind = type(value)
    ends = {list: "[]", tuple: "()", set: "{}", frozenset: ("frozenset({", "})"), dict: "{}"}.get(kind)
    if ends is None or len(value) * 2 <= kernel.TEXT_MAX:
        return repr(value)
    parts, size = [], 0
    items = value.items() if kind is dict else value
    for item in items:
        parts.append("%r: %r" % item if kind is dict else repr(item))
        size += len(parts[-1]) + 2
        if size > kernel.TEXT_MAX:
            break
    return ends[0] + ", ".join(parts) + ends[1]


def bundle(value, host, raw=False, mime=None):
    """({MIME type: JSON text}, [MIME types that were cut])"""
    result = Bundle()
    if mime is not None:
        result.add(mime, value)
    elif raw:
        for name, item in value.items():
            result.add(str(name), item)
    else:
        fill(result, value, host)
    return result.data, result.truncated


def fill(result, value, host):
    kind = type(value)
    result.add_text("text/plain", text_of(value))
    if isinstance(value, type):
        return
    if host.pyplot is not None and is_figure(value):
        kernel.helper("kernel_charts").fill(result, value, host)
        return
    many = getattr(kind, "_repr_mimebundle_", None)
    if many is not None:
        answer = many(value, include=None, exclude=None)
        if isinstance(answer, tuple):
            answer = answer[0]
        for name, item in (answer or {}).items():
            result.add(str(name), item)
    for method, name in METHODS:
        get = getattr(kind, method, None)
        if get is not None and name not in result.data:
            answer = get(value)
            result.add(name, answer[0] if isinstance(answer, tuple) else answer)
    fill_frame(result, value)


def is_figure(value):
    figure = sys.modules.get("matplotlib.figure")
    return figure is not None and isinstance(value, figure.Figure)


def fill_frame(result, value):
    """A frame of pandas or Polars as column to list of values: the first rows, if it is large."""
    columns = None
    for module, convert in (("pandas", pandas_columns), ("polars", polars_columns)):
        library = sys.modules.get(module)
        if library is not None and isinstance(value, getattr(library, "DataFrame", ())):
            columns = convert
    if columns is None:
        return
    height, width = value.shape
    rows = min(height, JSON_MAX // (2 * max(width, 1)) + 1)  # no value takes less than two bytes
    while True:
        text = dumps(plain(columns(value, rows)))
        if len(text) <= JSON_MAX or rows == 0:
            break
        rows = min(rows * JSON_MAX // len(text), rows - 1)
    if len(text) <= JSON_MAX:
        result.data[DATA] = text
    if rows < height or len(text) > JSON_MAX:
        result.truncated.append(DATA)


def pandas_columns(frame, rows):
    columns = {}
    for index, name in enumerate(frame.columns):
        name = str(name)
        if name in columns:  # pandas allows duplicate names
            name = "%s.%d" % (name, index)
        columns[name] = frame.iloc[:rows, index].tolist()
    return columns


def polars_columns(frame, rows):
    return frame.head(rows).to_dict(as_series=False)
