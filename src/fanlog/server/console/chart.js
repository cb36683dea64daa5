// Lines over time. The legend has the newest values; a pointer reads older ones.

import { h, svg } from "./dom.js";
import { age } from "./words.js";

const SPANS = [60, 180];

function niceTop(value) {
	if (value <= 1) return 1;
	const power = 10 ** Math.floor(Math.log10(value));
	return [1, 1.5, 2, 3, 5, 7.5, 10].map((step) => step * power).find((top) => top >= value);
}

/** `lines`: a key, a label and a tone each; `shown` writes a value. */
export function chart(label, lines, shown, { spark = false } = {}) {
	const series = lines.map(([key, label, tone = ""]) => ({ key, label, tone }));
	const values = series.map(() => h("b", "–"));
	const legend = h("ul.legend", series.map((one, index) =>
		h("li", { class: one.tone }, h("i", { "aria-hidden": "true" }), one.label, " ", values[index])));
	const art = svg("svg", { role: "img", "aria-label": label, preserveAspectRatio: "none" });
	const element = h("figure", { class: spark ? "spark" : "chart" }, spark ? null : legend, art);
	let samples = [];
	let looked = null;

	function draw() {
		const width = Math.max(art.clientWidth || 300, 60);
		const height = spark ? 34 : 168;
		const left = spark ? 0 : 44;
		const bottom = spark ? height - 2 : height - 20;
		art.setAttribute("viewBox", `0 0 ${width} ${height}`);
		const end = samples.at(-1)?.time ?? Date.now();
		const span = SPANS.find((one) => end - (samples[0]?.time ?? end) < one * 900) ?? SPANS.at(-1);
		const seen = samples.filter((sample) => sample.time > end - span * 1000);
		const top = niceTop(Math.max(0, ...seen.flatMap((sample) => series.map((one) => sample[one.key] ?? 0))));
		const x = (time) => left + (width - left - 1) * (1 - (end - time) / (span * 1000));
		const y = (value) => bottom - (bottom - 8) * (value / top);
		const parts = [];
		if (!spark) {
			for (const part of [0, 0.5, 1]) {
				parts.push(svg("line", { class: "grid", x1: left, x2: width, y1: y(top * part), y2: y(top * part) }),
					svg("text", { class: "tick", x: left - 6, y: y(top * part) + 4, "text-anchor": "end" }, shown(top * part).replace("/s", "")));
			}
			for (const part of [0, 1, 2, 3]) {
				const back = (span / 3) * part;
				const where = x(end - back * 1000);
				parts.push(svg("text", { class: "tick", x: Math.min(where, width - 2), y: height - 4, "text-anchor": ["end", "middle", "middle", "start"][part] },
					part ? age(back) : "now"));
			}
		}
		series.forEach((one, index) => {
			const points = seen.map((sample) => `${x(sample.time).toFixed(1)},${y(sample[one.key] ?? 0).toFixed(1)}`);
			if (points.length > 1) {
				if (index === 0) {
					parts.push(svg("path", { class: `area ${one.tone}`,
						d: `M${x(seen[0].time).toFixed(1)},${bottom}L${points.join("L")}L${x(end).toFixed(1)},${bottom}Z` }));
				}
				parts.push(svg("path", { class: `line ${one.tone}`, d: `M${points.join("L")}` }));
			}
		});
		const read = looked === null ? seen.at(-1)
			: seen.reduce((best, sample) => (Math.abs(x(sample.time) - looked) < Math.abs(x(best.time) - looked) ? sample : best), seen[0]);
		if (read && looked !== null) parts.push(svg("line", { class: "hair", x1: x(read.time), x2: x(read.time), y1: 4, y2: bottom }));
		series.forEach((one, index) => { values[index].textContent = read ? shown(read[one.key] ?? 0) : "–"; });
		art.replaceChildren(...parts);
		const last = samples.at(-1);
		art.setAttribute("aria-label", last ? `${label}: ${series.map((one) => `${one.label} ${shown(last[one.key] ?? 0)}`).join(", ")}` : `${label}: no numbers yet`);
	}

	if (!spark) {
		art.addEventListener("pointermove", (event) => { looked = event.offsetX; draw(); });
		art.addEventListener("pointerleave", () => { looked = null; draw(); });
	}
	new ResizeObserver(draw).observe(element);
	return { element, update(next) { samples = next; draw(); } };
}

export const meter = (label, used, total) => {
	const part = total > 0 ? Math.min(1, used / total) : 0;
	return h("progress.meter", { max: "1", value: part, "aria-label": label });
};
