"""kernel_charts.py - figures of Matplotlib: shown by plt.show() or at the end of a cell, as a picture
and, for the common kinds of plots, as the numbers behind it. Loaded by kernel.py, which is `kernel`
here, once a cell has imported matplotlib.pyplot.

The numbers come from what Matplotlib keeps of a plot: lines, collections, bar containers, wedges. Of
a box plot it keeps only lines, so the numbers given to Axes.bxp() are kept when it is called.
"""
import io
import re
import sys

values = kernel.helper("kernel_values")
UNIT = re.compile(r"[(\[]([^()\[\]]*)[)\]]\s*$")
POINTS_MAX = 100000  # of one chart; more would exceed its size limit


def adopt(pyplot, host):
    """Makes plt.show() use the kernel, and Axes.bxp() record its numbers."""
    def show(*_args, **_how):
        host.flush()
        show_all(host)

    show.__doc__ = pyplot.show.__doc__
    pyplot.show = show
    axes = sys.modules["matplotlib.axes"].Axes
    original = axes.bxp

    def bxp(self, bxpstats, positions=None, *args, **how):
        bxpstats = list(bxpstats)
        where = range(1, len(bxpstats) + 1) if positions is None else list(positions)
        boxes = self.__dict__.setdefault("_bailey_boxes", {})
        boxes.update((float(at), dict(stats)) for at, stats in zip(where, bxpstats))
        return original(self, bxpstats, positions, *args, **how)

    bxp.__doc__ = original.__doc__
    axes.bxp = bxp


def show_all(host):
    """Shows every open figure of pyplot once, then closes them."""
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    managers = list(helpers.Gcf.figs.values()) if helpers is not None else []
    if not managers:
        return
    figures = [manager.canvas.figure for manager in managers]
    host.pyplot.close("all")
    for figure in figures:
        if figure.axes or figure.lines or figure.texts or figure.images:
            if not any(figure is other for other in host.shown):
                host.send(host.event("display", figure))


def fill(result, figure, host):
    """Adds picture and chart to the bundle of a figure."""
    host.shown.append(figure)
    picture = io.BytesIO()
    figure.savefig(picture, format="png", bbox_inches="tight")
    result.add("image/png", picture.getvalue())
    try:
        chart = chart_of(figure)
    except Exception:  # an unusual plot is still a picture
        chart = None
    if chart is not None:
        result.add(values.CHART, chart)


def chart_of(figure):
    charts = [axes_chart(axes) for axes in figure.axes if axes.get_label() != "<colorbar>"]
    if not charts:
        return None
    if len(charts) == 1:
        return charts[0]
    title = figure._suptitle
    return {"type": "superchart", "title": title.get_text() if title else None, "elements": charts}


def axes_chart(axes):
    for kind, collect in (("box_and_whisker", box_elements), ("pie", pie_elements),
                          ("bar", bar_elements), ("scatter", scatter_elements),
                          ("line", line_elements)):
        elements = collect(axes)
        if elements:
            break
    else:
        kind, elements = "unknown", []
    chart = {"type": kind, "title": axes.get_title() or None, "elements": elements}
    if kind in ("pie", "unknown"):
        return chart
    for letter, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        label = axis.get_label_text() or None
        unit = UNIT.search(label) if label else None
        chart[letter + "_label"] = label
        chart[letter + "_unit"] = unit.group(1) if unit else None
        chart[letter + "_ticks"] = [coordinate(axis, tick) for tick in axis.get_ticklocs()]
        chart[letter + "_tick_labels"] = [tick.get_text() for tick in axis.get_ticklabels()]
        chart[letter + "_scale"] = scale(axis)
    return chart


def converter(axis):
    get = getattr(axis, "get_converter", None)
    found = get() if get else getattr(axis, "converter", None)
    return type(found).__name__ if found is not None else ""


def is_dated(axis):
    return "Date" in converter(axis) or "Period" in converter(axis)


def scale(axis):
    if is_dated(axis):
        return "datetime"
    if "Categor" in converter(axis):
        return "categorical"
    return axis.get_scale()


def coordinate(axis, value):
    """A position on an axis in the plot's own units: dates in ISO 8601, names of categories."""
    if hasattr(value, "isoformat"):
        return value.isoformat()
    value = values.plain(value)
    if isinstance(value, (int, float)):
        if is_dated(axis):
            return sys.modules["matplotlib.dates"].num2date(value).replace(tzinfo=None).isoformat()
        names = getattr(axis.units, "_mapping", None) if "Categor" in converter(axis) else None
        for name, number in (names or {}).items():
            if number == value:
                return name
    return value


def label_of(artist, what, index):
    label = str(artist.get_label())
    return "%s %d" % (what, index) if not label or label.startswith("_") else label


def points(axes, xs, ys):
    return [[coordinate(axes.xaxis, x), coordinate(axes.yaxis, y)]
            for x, y in zip(xs, ys)][:POINTS_MAX]


def line_elements(axes):
    return [{"label": label_of(line, "Line", index),
             "points": points(axes, line.get_xdata(orig=False), line.get_ydata(orig=False))}
            for index, line in enumerate(axes.lines)
            if line.get_transform() == axes.transData]


def scatter_elements(axes):
    kind = sys.modules["matplotlib.collections"].PathCollection
    return [{"label": label_of(group, "Dataset", index),
             "points": points(axes, *zip(*group.get_offsets().tolist()))}
            for index, group in enumerate(axes.collections)
            if isinstance(group, kind) and len(group.get_offsets())]


def bar_elements(axes):
    kind = sys.modules["matplotlib.container"].BarContainer
    elements = []
    for index, group in enumerate(bars for bars in axes.containers if isinstance(bars, kind)):
        is_flat = getattr(group, "orientation", None) == "horizontal"
        axis = axes.yaxis if is_flat else axes.xaxis
        names = dict(zip(axis.get_ticklocs(), (t.get_text() for t in axis.get_ticklabels())))
        for bar in group.patches:
            middle = bar.get_y() + bar.get_height() / 2 if is_flat else bar.get_x() + bar.get_width() / 2
            name = names.get(middle, "")
            if not name or is_number(name):
                name = coordinate(axis, round(float(middle), 10))
            elements.append({"label": str(name), "group": label_of(group, "Group", index),
                             "value": values.plain(bar.get_width() if is_flat else bar.get_height())})
    return elements


def is_number(text):
    try:
        float(text.replace("\u2212", "-"))
        return True
    except ValueError:
        return False


def pie_elements(axes):
    kind = sys.modules["matplotlib.patches"].Wedge
    return [{"label": label_of(wedge, "Slice", index),
             "angle": round(float(wedge.theta2 - wedge.theta1), 6), "radius": float(wedge.r)}
            for index, wedge in enumerate(p for p in axes.patches if isinstance(p, kind))]


def box_elements(axes):
    found = sorted(getattr(axes, "_bailey_boxes", {}).items())
    return [{"label": str(box.get("label", "") or at), "min": float(box["whislo"]),
             "first_quartile": float(box["q1"]), "median": float(box["med"]),
             "third_quartile": float(box["q3"]), "max": float(box["whishi"]),
             "outliers": values.plain(list(box.get("fliers", ())))} for at, box in found]
