// Filters: read as one types, tried on what was published lately, and on all of history as a job.

import { apiOf, ask, badge, button, count, empty, failure, form, get, go, h, heading, homeOf, idOf, instant, percent, plural, post, replaceQuery, section, time } from "../kit.js";
import { messageTable } from "../message_list.js";

const tree = (node) => h("li", {}, badge(node.kind === "TEST" ? "test" : node.kind, node.kind === "TEST" ? "" : "accent"), " ", node.words, " ",
	node.parts?.length ? h("ul", { class: "tree" }, node.parts.map(tree)) : h("code", { class: "quiet-text" }, node.text));

/** The line of the error, and a caret under the character. Columns count code points. */
function pointed(text, column) {
	const points = [...text];
	const before = points.slice(0, column - 1).join("");
	const line = before.split("\n").length - 1;
	return h("pre", { class: "pointed", "aria-hidden": "true" }, `${text.split("\n")[line]}\n${" ".repeat([...before.split("\n").at(-1)].length)}`, h("b", {}, "▲"));
}

export async function filters({ root, query, signal, project, may }) {
	const base = apiOf(project);
	const topics = may("pubsub.topics.list") ? ((await get(`${base}/topics:search`, { pageSize: 200 }, { signal })).topics ?? []).map((one) => idOf(one.name)) : [];
	const read = h("div", { class: "stack", "aria-live": "polite" });
	const result = h("div", { class: "stack" });
	let good = false;
	let turn = 0;
	let soon = 0;

	async function parse() {
		const mine = ++turn;
		good = false;
		const { filter } = fields.values();
		if (!filter.trim()) return read.replaceChildren(empty("Type a filter.", "Like region = eu-* AND payload.amount > 100. Names are attributes; payload reads into JSON data."));
		try {
			const answer = await post("/v1/filters:parse", { filter }, { signal });
			if (mine !== turn) return;
			good = !answer.problem;
			if (!good) {
				const { message, column } = answer.problem;
				read.replaceChildren(h("div", { class: "failure", role: "alert" }, h("p", {}, message), column ? pointed(filter, column) : ""));
			} else {
				read.replaceChildren(h("p", { class: "fine" }, h("i", { "aria-hidden": "true" }), answer.readsData ? "It can be read. It looks into the data of messages." : "It can be read. It needs attributes only, and no data."),
					h("ul", { class: "tree root" }, tree(answer.tree)), h("p", {}, h("small", {}, "As the server writes it")), h("code", { class: "block" }, answer.filter));
			}
		} catch (error) { if (!signal.aborted) read.replaceChildren(failure(error)); }
	}

	const fields = form([
		{ name: "filter", label: "Filter", type: "textarea", rows: 3, mono: true, value: query.get("filter") ?? "", placeholder: "region = eu-* AND payload.amount > 100" },
		{ name: "topic", label: "Topic", mono: true, value: query.get("topic") ?? topics[0] ?? "", suggestions: topics },
		{ name: "last", label: "On the last", type: "number", min: 1, max: 10000, value: "1000", hint: "messages of the topic" },
	], () => { clearTimeout(soon); soon = setTimeout(parse, 250); });

	async function tryIt() {
		await parse();
		if (!good) return;
		const { filter, topic, last } = fields.values();
		replaceQuery({ filter, topic });
		result.replaceChildren(h("p", { class: "note", role: "status" }, "Trying…"));
		try {
			const found = await post("/v1/filters:try", { filter, topic: `projects/${project}/topics/${topic}`, last: Number(last), maxSamples: 10 }, { signal });
			const looked = Number(found.lookedAt ?? 0);
			result.replaceChildren(h("p", { class: "card", role: "status" }, h("b", {}, `${count(found.matched)} of ${plural(looked, "message")} match`), looked ? ` (${percent(Number(found.matched ?? 0) / looked)})` : "",
				...(found.lookedBackTo ? [", back to ", time(found.lookedBackTo)] : []), found.cutShort ? ". The work was cut short: a try looks at so many bytes at most." : "."),
				section("Some that match", messageTable("Some that match", found.matching ?? [], project, empty("None."))),
				section("Some that do not", messageTable("Some that do not", found.others ?? [], project, empty("None."))));
		} catch (error) { if (!signal.aborted) result.replaceChildren(failure(error)); }
	}

	const backtest = () => ask({ title: "Try it on all of history", label: "Start the job", done: "The job waits for the pipeline.",
		lead: "The pipeline reads what the lake and the log have, and says what would have matched, by topic and day.",
		fields: [{ name: "from", label: "From", type: "datetime-local", step: 1 }, { name: "to", label: "To", type: "datetime-local", step: 1 }],
		act: async ({ from, to }) => {
			const { filter, topic } = fields.values();
			await post(`${base}/jobs`, { kind: "backtest", arguments: { filter, topics: [topic], ...(from && { from: instant(from) }), ...(to && { to: instant(to) }) } });
			go(`${homeOf(project)}/jobs`);
		} });

	root.append(heading("Filters", { note: "A subscription with a filter gets the messages that match; all others count as acknowledged." }),
		h("div", { class: "columns wide" }, h("form", { class: "card stack", "aria-label": "The filter", onsubmit: (event) => { event.preventDefault(); tryIt(); } }, fields.element,
			h("div", { class: "choices" }, may("fanlog.jobs.create") && button("Try on all of history", backtest, "quiet"), may("fanlog.topics.read") && h("button", { class: "primary" }, "Try it"))),
		section("How it is read", read)), result);
	await (query.get("topic") ? tryIt() : parse());
}
