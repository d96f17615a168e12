// The types of functions.

/** truncatedType is the type of what stands where callers are missing. */
export const truncatedType = "truncated";

/** isFunction is false for the types of the root, of groups (the processes whose stacks are below them) and of markers. */
export function isFunction(type: string): boolean {
  return type !== "root" && type !== "group" && type !== truncatedType;
}
