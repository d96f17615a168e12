import { useLayoutEffect, useState } from "preact/hooks";

/** useSize follows the size of the element that ref is given to. */
export function useSize<T extends HTMLElement>() {
  const [element, ref] = useState<T | null>(null);
  const [size, setSize] = useState({ width: 0, height: 0 });
  useLayoutEffect(() => {
    if (!element) return;
    const read = () => setSize({ width: element.clientWidth, height: element.clientHeight });
    const observe = new ResizeObserver(read);
    observe.observe(element);
    read();
    return () => observe.disconnect();
  }, [element]);
  return { ref, element, ...size };
}
