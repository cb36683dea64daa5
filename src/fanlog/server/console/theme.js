// Before the first paint, so that a dark page does not flash. Modules would be too late.
(() => {
	const kept = localStorage.getItem("fanlog-theme");
	if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
})();
