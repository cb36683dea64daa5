// The log itself: by time, offset, id, key, attribute or filter, hot and cold alike, and nothing is leased.

import { apiOf, button, count, empty, failure, form, get, go, h, heading, homeOf, idOf, instant, mapOf, plural, post, replaceQuery, section, tell, time } from "../kit.js";
import { messageTable } from "../message_list.js";
import { publish } from "./topic_forms.js";

const PAGE = 50;

export async function messages({ root, query, signal, project, may }) {
	const base = apiOf(project);
	const [topics, subscriptions] = await Promise.all(["topics", "subscriptions"].map(async (kind) =>
		may(`pubsub.${kind}.list`) ? ((await get(`${base}/${kind}:search`, { pageSize: 200 }, { signal }))[kind] ?? []).map((one) => idOf(one.name)) : []));
	const said = (name) => query.get(name) ?? "";
	const chosen = query.get("topic") ?? (query.get("subscription") ? "" : topics[0] ?? "");
	const fields = form([
		{ name: "kind", label: "Of a", type: "select", options: [["topic", "topic"], ["subscription", "subscription"]], value: query.get("subscription") ? "subscription" : "topic" },
		{ name: "topic", label: "Topic", mono: true, required: true, value: chosen, suggestions: topics, show: (now) => now.kind === "topic" },
		{ name: "subscription", label: "Subscription", mono: true, required: true, value: said("subscription"), suggestions: subscriptions, show: (now) => now.kind === "subscription" },
		{ name: "from", label: "From", type: "select", value: query.get("from") ?? "newest", options: [["newest", "the newest"], ["oldest", "the oldest"], ["time", "a time"], ["offset", "an offset"], ["id", "a message"]] },
		{ name: "time", label: "Time", type: "datetime-local", step: 1, required: true, value: said("time"), show: (now) => now.from === "time" },
		{ name: "offset", label: "Offset", type: "number", min: 0, required: true, value: said("offset"), show: (now) => now.from === "offset" },
		{ name: "id", label: "Message id", mono: true, required: true, value: said("id"), show: (now) => now.from === "id" },
		{ name: "backwards", label: "Going", type: "select", value: said("backwards"), options: [["", "forwards"], ["yes", "backwards"]], show: (now) => ["time", "offset", "id"].includes(now.from) },
		{ name: "key", label: "Ordering key", mono: true, value: said("key"), placeholder: "any" },
		{ name: "attribute", label: "Attribute", mono: true, value: said("attribute"), placeholder: "name=value" },
		{ name: "filter", label: "Filter", mono: true, wide: true, value: said("filter"), placeholder: "region = eu-* AND payload.amount > 100" },
	]);
	const result = section("Messages");
	let turn = 0;

	function asked(values) {
		const start = { time: { time: instant(values.time) }, offset: { offset: values.offset }, id: { messageId: values.id } }[values.from] ?? {};
		return { [values.kind]: `projects/${project}/${values.kind}s/${values[values.kind]}`, ...start,
			newestFirst: values.from === "newest" || (values.from !== "oldest" && values.backwards === "yes"),
			orderingKey: values.key || undefined, attributes: values.attribute ? mapOf(values.attribute) : undefined, filter: values.filter || undefined,
			maxMessages: PAGE, maxDataBytes: 16384, decode: true };
	}

	async function browse() {
		const mine = ++turn;
		const values = fields.values();
		replaceQuery({ ...values, kind: "", from: values.from === "newest" ? "" : values.from,
			[values.kind === "topic" ? "subscription" : "topic"]: "", time: values.from === "time" ? values.time : "", offset: values.from === "offset" ? values.offset : "", id: values.from === "id" ? values.id : "" });
		const found = [];
		let looked = 0;
		let body;
		try { body = asked(values); } catch (error) { result.replaceChildren(result.firstChild, failure(error)); return; }
		const state = h("p", { class: "note", role: "status" }, "Looking…");
		const place = h("div");
		const more = button("Look further", () => page(more.dataset.token));
		more.hidden = true;
		result.replaceChildren(result.firstChild, state, place, h("div", { class: "pager" }, more));
		async function page(pageToken) {
			more.disabled = true;
			try {
				const answer = await post("/v1/messages:browse", { ...body, pageToken }, { signal });
				if (mine !== turn) return;
				found.push(...(answer.messages ?? []));
				looked += Number(answer.lookedAt ?? 0);
				more.dataset.token = answer.nextPageToken ?? "";
				more.hidden = !answer.nextPageToken;
				state.replaceChildren(`${plural(found.length, "message")} of ${count(looked)} looked at`,
					...(answer.lookedUntil && answer.nextPageToken ? [", as far as ", time(answer.lookedUntil)] : []),
					answer.nextPageToken ? ". There is more." : looked ? ". That is all." : "",
					Number(answer.damaged) ? ` ${count(answer.damaged)} could not be read: they are damaged.` : "");
				place.replaceChildren(messageTable("Messages", found, project,
					empty(answer.nextPageToken ? "None so far." : "No message.", answer.nextPageToken ? "A page looks at 20,000 messages at most. Look further for the next." : "Nothing here is like that, or nothing was published yet."), values.kind === "subscription"));
			} catch (error) {
				if (mine === turn && !signal.aborted) { state.textContent = ""; place.replaceChildren(failure(error)); }
			} finally { more.disabled = false; }
		}
		await page();
	}

	const open = h("input", { class: "mono", "aria-label": "Message id", placeholder: "Message id", required: true, size: "18" });
	root.append(heading("Messages", { note: "What is in the log, whoever it was for. Looking takes nothing from anybody.",
		actions: [h("form", { class: "inline", onsubmit: (event) => { event.preventDefault(); go(`${homeOf(project)}/messages/${encodeURIComponent(open.value.trim())}`); } }, open, h("button", {}, "Its life")),
			button("Publish", async () => {
				const { kind, topic } = fields.values();
				if (kind !== "topic" || !topic) return tell("Choose a topic first.", true);
				if (await publish(`projects/${project}/topics/${topic}`)) browse();
			}, "primary")] }));
	root.append(h("form", { class: "card stack", "aria-label": "What to look for", onsubmit: (event) => { event.preventDefault(); browse(); } },
		fields.element, h("div", { class: "choices" }, h("button", { class: "primary" }, "Look"))), result);
	if (chosen || query.get("subscription")) await browse();
	else result.append(empty("No topics yet.", "Create one, and publish to it."));
}
