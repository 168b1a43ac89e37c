// SPDX-License-Identifier: GPL-2.0
// Draws each .chart with dygraphs, from the JSON in the next element.
"use strict";

// The box at the pointer lists up to this number of lines. If there are more, it names only the nearest.
const LISTED = 8;

const number = (value) => String(+value.toPrecision(4));

function legend(data) {
	if (data.x === undefined)
		return "";
	const some = data.series.filter((s) => s.isVisible && s.yHTML !== undefined && s.yHTML !== "");
	const named = some.length > LISTED ? some.filter((s) => s.isHighlighted) : some;
	return [data.xHTML, ...named.map((s) => `${s.dashHTML} ${s.labelHTML}: ${s.yHTML}`)].join("<br>");
}

// Draw the measurement window and a limit underneath the lines.
function underlay(chart) {
	return (context, area, graph) => {
		if (chart.shade) {
			const [from, until] = chart.shade.map((x) => graph.toDomXCoord(x));
			const left = Math.max(from, area.x), right = Math.min(until, area.x + area.w);
			context.fillStyle = "rgba(138, 160, 184, 0.15)";
			context.fillRect(left, area.y, Math.max(right - left, 0), area.h);
		}
		if (chart.limit !== null) {
			const y = graph.toDomYCoord(chart.limit);
			context.strokeStyle = "#888";
			context.setLineDash([4, 4]);
			context.beginPath();
			context.moveTo(area.x, y);
			context.lineTo(area.x + area.w, y);
			context.stroke();
			context.setLineDash([]);
		}
	};
}

// The ticks of dygraphs on a log axis are too dense. Use powers of 10, and values between them if there are few.
function logTicks(low, high) {
	const ticks = [], first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
	const factors = last - first > 3 ? [1] : last - first > 1 ? [1, 3] : [1, 2, 3, 5, 7];
	for (let power = first; power <= last; power++)
		for (const factor of factors) {
			const v = factor * 10 ** power;
			if (v >= low && v <= high)
				ticks.push({v, label: number(v)});
		}
	return ticks;
}

function draw(element) {
	const chart = JSON.parse(element.nextElementSibling.textContent);
	const named = (x) => chart.ticks ? chart.ticks[Math.round(x)] : number(x);
	const rows = chart.x.map((x, i) => [x, ...chart.y.map((line) => line[i])]);
	const axes = {
		x: {drawGrid: false, logscale: chart.x_log, axisLabelFormatter: named,
		    valueFormatter: (x) => chart.ticks ? named(x) : `${chart.x_title}: ${number(x)}`},
		y: {axisLabelWidth: 48, axisLabelFormatter: number, valueFormatter: number},
	};
	if (chart.ticks)
		axes.x.ticker = () => chart.ticks.map((label, v) => ({v, label}));
	else if (chart.x_log)
		axes.x.ticker = logTicks;
	if (chart.y_log)
		axes.y.ticker = logTicks;
	// By default dygraphs zooms out to the range of the lines, which differs between panels.
	const zoomOut = (event, graph) => graph.updateOptions({dateWindow: null, valueRange: chart.y_range});

	return new Dygraph(element, rows, {
		interactionModel: {...Dygraph.defaultInteractionModel, dblclick: zoomOut},
		labels: ["x", ...chart.labels], colors: chart.colors, axes,
		xlabel: chart.x_title, ylabel: chart.y_title, xLabelHeight: 15, yLabelWidth: 15,
		valueRange: chart.y_range, logscale: chart.y_log,
		xRangePad: chart.ticks ? 24 : chart.dots ? 8 : 0, yRangePad: chart.dots ? 4 : 0,
		stepPlot: chart.steps, connectSeparatedPoints: true,
		drawPoints: chart.dots, pointSize: 3, strokeWidth: 1.5, customBars: chart.bars,
		legend: "follow", legendFormatter: legend, underlayCallback: underlay(chart),
		highlightCircleSize: 4, highlightSeriesOpts: {strokeWidth: 2.5}, highlightSeriesBackgroundAlpha: 1,
		axisLineColor: "#888", gridLineColor: "rgba(138, 150, 165, 0.3)",
	});
}

const graphs = [...document.querySelectorAll(".chart")].map((element) => [element, draw(element)]);
const timed = graphs.filter(([element]) => "time" in element.dataset).map(([, graph]) => graph);
if (timed.length > 1)
	Dygraph.synchronize(timed, {selection: false, zoom: true, range: false});
