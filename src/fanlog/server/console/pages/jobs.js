// Work of the pipeline: how far it is, what it found, and an end to it.

import { age, ago, all, apiOf, ask, badge, button, cell, count, empty, every, facts, h, heading, idOf, inform, pathOf, post, remove, rowActs, rowName, table, time } from "../kit.js";

const TONES = { DONE: "good", FAILED: "bad", RUNNING: "accent", CANCELLING: "warn" };
export const stateOf = (job) => badge((job.state ?? "WAITING").toLowerCase(), TONES[job.state]);
const over = (job) => ["DONE", "FAILED", "CANCELLED"].includes(job.state);

export function progressOf(job) {
	if (over(job)) return job.error || (job.endTime ? `ended ${ago(job.endTime)}` : "");
	if (!Number(job.total)) return job.phase || (job.worker ? "under way" : "waits for a worker of the pipeline");
	return h("div", {}, h("progress", { max: job.total, value: job.done ?? "0", "aria-label": `Progress of ${idOf(job.name)}` }),
		h("small", {}, `${count(job.done)} of ${count(job.total)}${job.phase ? `, ${job.phase}` : ""}${job.remainingSeconds ? `, ${age(job.remainingSeconds)} left` : ""}`));
}

function look(job) {
	const shown = (value) => h("pre", { class: "data", tabindex: "0" }, JSON.stringify(value, null, 2));
	inform(`Job ${idOf(job.name)}`, facts([["Kind", job.kind], ["State", stateOf(job)], ["Worker", job.worker], ["Attempt", job.attempt],
		["Asked for", time(job.createTime)], ["Started", job.startTime && time(job.startTime)], ["Ended", job.endTime && time(job.endTime)], ["Error", job.error]]),
		h("h3", {}, "Arguments"), shown(job.arguments ?? {}), ...(job.result ? [h("h3", {}, "Result"), shown(job.result)] : []));
}

const KINDS = [["verify", "verify: compare lake and log"], ["compact", "compact: merge small files of the lake"], ["expire", "expire: let go of what retention has"]];

export const startJob = (project) => ask({ title: "Start a job", label: "Start", done: "The job waits for the pipeline.",
	fields: [{ name: "kind", label: "What", type: "select", options: KINDS }, { name: "topics", label: "Topics", mono: true, placeholder: "all", hint: "Ids with commas between them.", show: (now) => now.kind === "verify" }],
	act: ({ kind, topics }) => post(`${apiOf(project)}/jobs`, { kind, arguments: kind === "verify" && topics ? { topics: topics.split(",").map((one) => one.trim()) } : {} }) });

export const jobTable = (jobs, may, after, nothing) => table("Jobs", [
	rowName("Job", (row) => button(idOf(row.name), () => look(row), "as-link mono")),
	cell("Kind", (row) => row.kind),
	cell("State", stateOf),
	{ label: "Progress", kind: "fill", cell: progressOf },
	cell("Worker", (row) => row.worker ?? ""),
	cell("Asked for", (row) => ago(row.createTime)),
	rowActs((row) => [!over(row) && may("fanlog.jobs.cancel") && button("Cancel", async () => (await ask({ title: `Cancel ${idOf(row.name)}?`, label: "Cancel the job", danger: true, lead: "What it has done so far stays done.", done: "The job is being cancelled.", act: () => post(`${pathOf(row.name)}:cancel`) })) && after(), "small"),
		over(row) && may("fanlog.jobs.delete") && button("Forget", async () => (await ask({ title: `Forget ${idOf(row.name)}?`, label: "Forget", lead: "Its result goes with it.", done: "Forgotten.", act: () => remove(pathOf(row.name)) })) && after(), "quiet small")].filter(Boolean)),
], jobs, nothing);

export async function jobs({ root, signal, project, may }) {
	const card = h("div", { class: "card list" });
	const make = may("fanlog.jobs.create") ? [button("Start a job", async () => (await startJob(project)) && draw(), "primary")] : [];
	root.append(heading("Jobs", { note: "Work that the pipeline does besides: backtests, redrives of many letters, upkeep of the lake.", actions: make }), card);
	let before = "";
	async function draw() {
		const found = await all(`${apiOf(project)}/jobs`, "jobs", {}, 200);
		const now = JSON.stringify(found);
		if (signal.aborted || (now === before && !found.some((job) => !over(job)))) return;
		before = now;
		card.replaceChildren(jobTable(found, may, draw, empty("No jobs.", "Start one here, try a filter on all of history, or ask on the command line: fanlog job --help.")));
	}
	await every(2000, signal, draw);
}
