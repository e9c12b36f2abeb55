import { put } from "./state.js";
export function showMemory(box) { put(box, "memory"); }
