// Dead letters: why and where they failed, and what to do with them.

import { a, all, apiOf, ask, asking, button, bytes, cell, count, cut, empty, facts, failure, fill, form, get, go, h, heading, idOf, inform, instant, labels, life, note, number, open, pathOf, plural, post, ref, refill, replaceQuery, rowActs, rowName, section, show, submit, table, tell, time, to } from "../kit.js";
import { payload, preview } from "../payload.js";

const VERBS = { redrive: ["Redrive", "redriven"], discard: ["Discard", "discarded"] };

async function readersOf(project) {
	const rows = await all(`${apiOf(project)}/subscriptions:search`, "subscriptions", { orderBy: "name" }, 2000);
	const dead = new Set(rows.map((row) => row.deadLetterTopic).filter(Boolean));
	return { readers: rows.filter((row) => dead.has(row.topic)).map((row) => idOf(row.name)), unread: [...dead].filter((topic) => !rows.some((row) => row.topic === topic)), more: rows.more };
}

async function countAll(path, selection, signal, shown) {
	const groups = new Map();
	let rest = 0;
	let pageToken;
	do {
		const answer = await get(`${path}/deadLetters:count`, { ...selection, pageToken });
		for (const group of answer.groups ?? []) {
			const key = `${group.sourceSubscription}\n${group.reason}`;
			const before = groups.get(key) ?? { ...group, letters: 0 };
			groups.set(key, { ...before, letters: before.letters + Number(group.letters), lastTime: group.lastTime });
		}
		rest += Number(answer.rest ?? 0);
		pageToken = answer.nextPageToken;
		shown([...groups.values()].sort((one, other) => other.letters - one.letters), rest, Boolean(pageToken));
	} while (pageToken && !signal.aborted);
}

function work(verb, path, body, total) {
	return new Promise((resolve) => {
		let [stopped, done, skipped] = [false, 0, 0];
		const [title, past] = VERBS[verb];
		const bar = h("progress", { max: String(Math.max(total, 1)), value: "0", "aria-label": "Progress" });
		const words = h("p", { role: "status" }, "Starting…");
		const why = h("ul.note");
		const stop = button("Stop", () => { stopped = true; });
		const dialog = open(title, h("div.stack", words, bar, why, h("div.choices", stop)));
		const close = () => stop.replaceWith(button("Close", () => dialog.close(), "primary"));
		dialog.addEventListener("close", resolve);
		dialog.addEventListener("cancel", (event) => { event.preventDefault(); stopped = true; });
		(async () => {
			let pageToken;
			try {
				do {
					const answer = await post(`${path}:${verb}`, body.messageIds ? body : { ...body, maxMessages: 500, pageToken });
					done += Number(answer.reopened ?? 0) + Number(answer.copied ?? 0) + Number(answer.discarded ?? 0);
					skipped += Number(answer.skipped ?? 0);
					for (const one of (answer.skippedLetters ?? []).slice(0, Math.max(0, 5 - why.childElementCount))) why.append(h("li", `${one.messageId}: ${one.reason}`));
					bar.value = done + skipped;
					words.textContent = `${count(done)} of ${count(total)} ${past}${skipped ? `, ${count(skipped)} skipped` : ""}.`;
					pageToken = answer.nextPageToken;
				} while (pageToken && !stopped);
				if (skipped) close();
				else dialog.close();
				tell(`${words.textContent}${stopped && pageToken ? " Stopped." : ""}`);
			} catch (error) {
				words.replaceWith(failure(error));
				close();
			}
		})();
	});
}

async function act(verb, path, selection, total, why = "") {
	const [title] = VERBS[verb];
	const again = verb === "redrive";
	const what = plural(total, "letter");
	const body = await ask({ title: `${title} ${what}?`, label: title, danger: !again,
		lead: again ? `${what} ${total === 1 ? "goes back to the subscription it" : "go back to the subscriptions they"} failed on, to be delivered again there.${why}`
			: `${what} ${total === 1 ? "is" : "are"} acknowledged and not delivered to anybody again. This cannot be undone.${why}`,
		fields: again ? [["copies", "Publish copies where the message itself is no longer kept", "check", { value: true }]] : [],
		act: (values) => ({ ...(Object.values(selection).some(Boolean) ? selection : { all: true }), ...values }) });
	if (body) await work(verb, path, body, total);
	return body;
}

function lookInside(letter, project) {
	const { message } = letter;
	inform(`Dead letter ${message.messageId}`, facts([
		["Reason", letter.reason], ["Failed on", letter.sourceSubscription, ref], ["Attempts", letter.deliveryAttempts],
		["First message", letter.sourceMessageId, life(project)], ["Came", time(message.publishTime)],
		["Leased", letter.leased && "a consumer has it: it is neither redriven nor discarded"], ["Ordering key", message.orderingKey], ["Attributes", message.attributes, labels]]),
	payload(message.data));
}

async function groupPage({ path, selection, project, place, reload }) {
	const picked = new Set();
	const found = [];
	const rows = h("div");
	const more = button("More", () => page(more.dataset.token));
	const chosen = (verb) => async () => (picked.size ? act(verb, path, { messageIds: [...picked] }, picked.size) : tell("Choose some letters first.", true));
	async function page(pageToken) {
		const answer = await get(`${path}/deadLetters`, { ...selection, pageSize: 50, pageToken });
		found.push(...(answer.letters ?? []));
		more.dataset.token = answer.nextPageToken ?? "";
		more.hidden = !answer.nextPageToken;
		show(rows, table("Letters", [
			{ label: h("span.hidden", "Choose"), cell: ({ message: { messageId } }) => {
				const box = h("input", { type: "checkbox", "aria-label": `Choose ${messageId}`, onchange: () => (box.checked ? picked.add(messageId) : picked.delete(messageId)) });
				box.checked = picked.has(messageId);
				return box;
			} },
			rowName("Letter", (row) => button(row.message.messageId, () => lookInside(row, project), "as-link mono")),
			cell("Came", (row) => time(row.message.publishTime)),
			number("Attempts", "deliveryAttempts"),
			cut("Key", (row) => row.message.orderingKey),
			cut("Data", (row) => preview(row.message.data), ".wide-cut"),
			number("Size", (row) => bytes((row.message.data ?? "").length * 0.75)),
		], found, empty("No letters any more.")));
	}
	show(place, section(`Letters of ${idOf(selection.sourceSubscription)}`, note(selection.reason),
		h("div.tools", asking("Redrive the chosen", chosen("redrive"), reload, "small"), asking("Discard the chosen", chosen("discard"), reload, "danger quiet small")), rows, h("div.pager", more)));
	await page();
	place.querySelector("h2").scrollIntoView({ block: "nearest" });
}

export async function letters({ root, query, signal, project, reload }) {
	const { readers, unread, more } = await readersOf(project);
	const id = query.get("subscription") ?? readers[0];
	root.append(heading("Dead letters", { note: "Messages that failed too often, by reason and subscription." }));
	if (unread.length) root.append(h("p.failure", `Nothing reads ${unread.map(idOf).join(", ")}: create a subscription of it, or letters there are lost.`));
	if (!id) {
		root.append(empty("No subscription reads dead letters.", "Give a subscription a dead letter topic, and that topic a subscription."));
		return;
	}
	const path = pathOf(`projects/${project}/subscriptions/${id}`);
	const groups = section("By reason");
	const inside = h("div", { "aria-live": "polite" });
	const everything = h("div.choices");
	const fields = form([
		["subscription", "Read by", "select", { value: id, options: [...new Set([id, ...readers])], hint: more && "Of the first 2,000 subscriptions." }],
		["start", "Only those since", "time"], ["end", "and before", "time"],
		["filter", "Filter", "mono", { wide: true, value: query.get("filter") ?? "", placeholder: "payload.amount > 100", hint: "On data and attributes of letters." }],
	]);
	fields.input("subscription").addEventListener("change", (event) => go(to(project, "letters", { subscription: event.target.value })));
	let turn = 0;
	async function draw() {
		const mine = ++turn;
		const { start, end, filter } = fields.values();
		const selection = { filter: filter || undefined, startTime: instant(start), endTime: instant(end) };
		const chosen = Object.values(selection).some(Boolean);
		replaceQuery({ subscription: id, filter });
		show(inside);
		show(everything);
		const acts = (body, total, why, kind, words = "") => Object.keys(VERBS).map((verb) => asking(`${VERBS[verb][0]}${words}`, () => act(verb, path, body, total, why), reload, verb === "redrive" ? kind : `danger quiet ${kind}`));
		try {
			await countAll(path, selection, signal, (rows, rest, going) => {
				if (mine !== turn) return;
				const total = rows.reduce((sum, row) => sum + row.letters, rest);
				if (total && !going) show(everything, acts(selection, total, "", "", chosen ? ` these ${count(total)}` : " all"));
				refill(groups, table("Dead letters by reason", [
					rowName("Failed on", "sourceSubscription", ref),
					fill("Reason", (row) => row.reason || "–"),
					number("Letters", "letters"),
					cell("First", "firstTime", time),
					cell("Last", "lastTime", time),
					rowActs((row) => {
						const body = { ...selection, sourceSubscription: row.sourceSubscription, reason: row.reason };
						return [button("Look inside", () => groupPage({ path, selection: body, project, place: inside, reload }), "small"), acts(body, row.letters, ` Reason: ${row.reason}`, "small")];
					}),
				], rows, empty(chosen ? "No letter is like that." : "No dead letters.", chosen ? "" : `Nothing waits on ${id}.`)), going ? note("Counting on…") : rest > 0 && h("p.note.below", `${count(rest)} of other reasons.`));
			});
		} catch (error) {
			if (mine === turn && !signal.aborted) refill(groups, failure(error));
		}
	}
	root.append(submit("Which letters", draw, fields.element,
		h("div.choices", everything, h("button", "Count"))), groups, inside);
	await draw();
}
