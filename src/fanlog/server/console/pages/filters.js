// Filters: read as one types, and tried.

import { apiOf, ask, badge, button, columns, count, empty, failure, fine, form, go, h, heading, idsOf, instant, percent, plural, post, replaceQuery, section, show, soon, submit, time, to } from "../kit.js";
import { messageTable } from "./messages.js";

const tree = (node) => h("li", badge(node.kind === "TEST" ? "test" : node.kind, node.kind === "TEST" ? "" : "accent"), " ", node.words, " ",
	node.parts?.length ? h("ul.tree", node.parts.map(tree)) : h("code.note", node.text));

/** A caret under the character of an error. Columns count code points. */
function pointed(text, column) {
	const points = [...text];
	const before = points.slice(0, column - 1).join("");
	const line = before.split("\n").length - 1;
	return h("pre.pointed", { "aria-hidden": "true" }, `${text.split("\n")[line]}\n${" ".repeat([...before.split("\n").at(-1)].length)}`, h("b", "▲"));
}

export async function filters({ root, query, signal, project, may }) {
	const base = apiOf(project);
	const topics = may("pubsub.topics.list") ? await idsOf(project, "topics") : [];
	const read = h("div.stack", { "aria-live": "polite" });
	const result = h("div.stack");
	let good = false;
	let turn = 0;

	async function parse() {
		const mine = ++turn;
		good = false;
		const { filter } = fields.values();
		if (!filter.trim()) return show(read, empty("Type a filter.", "Like region = eu-* AND payload.amount > 100. Names are attributes; payload reads into JSON data."));
		try {
			const answer = await post("/v1/filters:parse", { filter }, { signal });
			if (mine !== turn) return;
			good = !answer.problem;
			if (!good) {
				const { message, column } = answer.problem;
				show(read, h("div.failure", { role: "alert" }, h("p", message), column && pointed(filter, column)));
			} else {
				show(read, fine(`It can be read. It ${answer.readsData ? "looks into the data of messages" : "needs attributes only, and no data"}.`),
					h("ul.tree.root", tree(answer.tree)), h("p", h("small", "As the server writes it")), h("code.block", answer.filter));
			}
		} catch (error) { if (!signal.aborted) show(read, failure(error)); }
	}

	const fields = form([
		["filter", "Filter", "code", { rows: 3, value: query.get("filter") ?? "", placeholder: "region = eu-* AND payload.amount > 100" }],
		["topic", "Topic", "mono", { value: query.get("topic") ?? topics[0] ?? "", suggestions: topics }],
		["last", "On the last", "number", { min: 1, max: 10000, value: "1000", hint: "messages of the topic" }],
	], soon(parse));

	async function tryIt() {
		await parse();
		if (!good) return;
		const { filter, topic, last } = fields.values();
		replaceQuery({ filter, topic });
		show(result, h("p.note", { role: "status" }, "Trying…"));
		try {
			const found = await post("/v1/filters:try", { filter, topic: `projects/${project}/topics/${topic}`, last: Number(last), maxSamples: 10 }, { signal });
			const looked = Number(found.lookedAt ?? 0);
			show(result, h("p.card", { role: "status" }, h("b", `${count(found.matched)} of ${plural(looked, "message")} match`), looked > 0 && ` (${percent(Number(found.matched ?? 0) / looked)})`,
				found.lookedBackTo && [", back to ", time(found.lookedBackTo)], found.cutShort ? ". The work was cut short: a try looks at so many bytes at most." : "."),
				section("Some that match", messageTable("Some that match", found.matching ?? [], project, empty("None."))),
				section("Some that do not", messageTable("Some that do not", found.others ?? [], project, empty("None."))));
		} catch (error) { if (!signal.aborted) show(result, failure(error)); }
	}

	const backtest = () => ask({ title: "Try it on all of history", label: "Start the job", done: "The job waits for the pipeline.",
		lead: "The pipeline says what would have matched in the lake and the log, by topic and day.",
		fields: [["from", "From", "time"], ["until", "To", "time"]],
		act: async ({ from, until }) => {
			const { filter, topic } = fields.values();
			await post(`${base}/jobs`, { kind: "backtest", arguments: { filter, topics: [topic], from: instant(from), to: instant(until) } });
			go(to(project, "jobs"));
		} });

	root.append(heading("Filters", { note: "A subscription with a filter gets the messages that match; all others count as acknowledged." }),
		columns(submit("The filter", tryIt, fields.element, h("div.choices", may("fanlog.jobs.create") && button("Try on all of history", backtest, "quiet"), may("fanlog.topics.read") && h("button.primary", "Try it"))),
			section("How it is read", read)), result);
	await (query.get("topic") ? tryIt() : parse());
}
