/** Nodes of pages, made without HTML texts: nothing that a task says can become markup. */

/** An element with these attributes and children. */
export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Readonly<Record<string, string>> = {},
  children: readonly (Node | string)[] = [],
): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** The element of the page with this id. */
export const part = (id: string): HTMLElement => document.getElementById(id)!;

/** Runs `work` on an event, instead of what the browser does. */
export const on = (node: Node, event: string, work: () => unknown): void =>
  node.addEventListener(event, (happened) => {
    happened.preventDefault();
    void work();
  });

/** The survey's look, in a layer: every style of the page comes first. */
export const STYLE = new CSSStyleSheet();
STYLE.replaceSync(`@layer shuffledp {
  shuffledp-survey { display: block; }
  shuffledp-survey fieldset { border: 0; margin: 1rem 0; padding: 0; display: flex; flex-wrap: wrap; gap: .7rem; }
  shuffledp-survey legend { padding: 0; margin-bottom: .4rem; font-weight: bold; }
  shuffledp-survey label { border: 1px solid; border-radius: .5rem; padding: .5rem 1.2rem .5rem .9rem; cursor: pointer; }
  shuffledp-survey .buttons { display: flex; flex-wrap: wrap; gap: .7rem; margin: 1rem 0; }
  shuffledp-survey button { font: inherit; padding: .55rem 1.2rem; border-radius: .5rem; cursor: pointer; }
  shuffledp-survey dl { display: grid; grid-template-columns: max-content 1fr; gap: .3rem 1rem; }
  shuffledp-survey dt { font-weight: bold; }
  shuffledp-survey dd { margin: 0; overflow-wrap: anywhere; }
  shuffledp-survey summary { cursor: pointer; }
  shuffledp-survey li { margin: .3rem 0; overflow-wrap: anywhere; }
}`);
