import assert from 'node:assert/strict'
import type { ManifestContext } from './context.ts'
import { type ExampleName, exampleContext, exampleFiles } from './examples.ts'
import { type ParsedManifests, parseManifests } from './parse-manifests.ts'
import type { ManifestName, Problem } from './problem.ts'

/** For tests: an example with pieces of its files replaced, `[file, from, to]`. Each `from` must be there. */
export type Edit = readonly [manifest: ManifestName, from: string, to: string]

export async function parseEdited(
  example: ExampleName,
  edits: readonly Edit[],
  context: ManifestContext = exampleContext(example),
): Promise<ParsedManifests> {
  const files = await exampleFiles(example)
  for (const [manifest, from, to] of edits) {
    const text = Buffer.from(files[manifest]).toString()
    assert.ok(text.includes(from), `${manifest}.yaml of the example holds ${JSON.stringify(from)}`)
    files[manifest] = Buffer.from(text.replace(from, () => to))
  }
  return parseManifests(files, context)
}

/** `path: message`, the shortest form in which a test can say what it expects. */
export function inBrief(problems: readonly Problem[]): readonly string[] {
  return problems.map((problem) => `${problem.path}: ${problem.message}`)
}
