/** The examples of a README: blocks that name a file, each followed by what it prints. */
const EXAMPLE = /^`([a-z]+\.js)`:\n\n```js\n([^]*?)^```\n\n```text\n([^]*?)^```$/gm

export interface Example {
  readonly file: string
  readonly code: string
  readonly prints: string
}

/** Throws where a block of code is no example. */
export function examplesOf(readme: string): readonly Example[] {
  const examples = Array.from(readme.matchAll(EXAMPLE), ([, file = '', code = '', prints = '']) => ({
    file,
    code,
    prints,
  }))
  const blocks = readme.match(/^```js$/gm)?.length ?? 0
  if (blocks !== examples.length || blocks === 0) throw new Error(`${examples.length} of ${blocks} blocks are examples`)
  return examples
}
