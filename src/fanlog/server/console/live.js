// One stream of live numbers for all pages, and the last minutes of them.

import { at, h, show, tile } from "./dom.js";
import { rate } from "./words.js";

const KEPT = 300;
const histories = new Map();
const listeners = new Set();
let stream = null;
let wanted = "";
let server = false;
let retry = 0;

export const history = (key) => histories.get(key) ?? [];

function keep(key, time, values) {
	const kept = histories.get(key) ?? [];
	kept.push({ time, ...values });
	if (kept.length > KEPT) kept.shift();
	histories.set(key, kept);
}

function state(name, words) {
	at("live").dataset.state = name;
	at("live-text").textContent = words;
}

function take(sample) {
	const time = Date.parse(sample.time);
	if (sample.hasRates && sample.server) {
		keep("server", time, { ...sample.server.rates, waiting: Number(sample.server.backlog.messages),
			age: parseFloat(sample.server.backlog.oldestUnackedAge), cpu: sample.server.node.cpu });
	}
	for (const one of [...sample.topics, ...sample.subscriptions]) {
		if (sample.hasRates) keep(one.name, time, { ...one, backlog: Number(one.backlog ?? 0), age: parseFloat(one.oldestUnackedAge ?? "0") });
	}
	state("on", "live");
	for (const listener of listeners) listener(sample);
}

export function stop() {
	clearTimeout(retry);
	stream?.close();
	stream = null;
	wanted = "";
	state("off", "not live");
}

function open() {
	stream?.close();
	state("wait", "connecting");
	const mine = new EventSource(`/v1/live${wanted}`);
	stream = mine;
	mine.addEventListener("sample", (event) => { if (!document.hidden) take(JSON.parse(event.data)); });
	mine.addEventListener("end", (event) => {
		mine.close();
		state("off", "not live");
		at("live").title = JSON.parse(event.data).error.message;
		retry = setTimeout(open, 4000);
	});
	mine.addEventListener("error", () => {
		state("wait", "connecting");
		if (mine.readyState === EventSource.CLOSED) retry = setTimeout(open, 4000);
	});
}

export function allow(yes) { server = yes; }

export function want({ topics = [], subscriptions = [] } = {}) {
	const query = new URLSearchParams();
	for (const name of topics) query.append("topics", name);
	for (const name of subscriptions) query.append("subscriptions", name);
	if (!server) query.append("onlyNamed", "true");
	if (!server && !topics.length && !subscriptions.length) return stop();
	const next = query.size ? `?${query}` : "?";
	if (stream && next === wanted) return;
	clearTimeout(retry);
	wanted = next;
	open();
}

export function watch(signal, listener) {
	listeners.add(listener);
	signal.addEventListener("abort", () => listeners.delete(listener));
}

export function liveTiles(kind, name, signal, charts, facts) {
	const now = h("div.tiles");
	const draw = (sample) => {
		for (const one of charts) one.update(history(name));
		const mine = sample?.[kind].find((one) => one.name === name);
		if (mine) show(now, facts(mine, (value) => (sample.hasRates ? rate(value) : "–")).map(([label, value]) => tile(label, value)));
	};
	draw();
	watch(signal, draw);
	return now;
}
