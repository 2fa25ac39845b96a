/** Which mutations a source has, by what kind of file it is. */
import { type Edit, type Mutation, mutationOf } from './mutation.ts'
import { pythonEdits } from './python.ts'
import { typescriptEdits } from './typescript.ts'
import { yamlEdits } from './yaml.ts'

/** The generators by the file's ending; what has none is not mutated. */
const EDITS: Readonly<Record<string, (source: string) => readonly Edit[]>> = {
  ts: typescriptEdits,
  js: (source) => typescriptEdits(source, 'javascript'),
  yaml: yamlEdits,
  yml: yamlEdits,
  py: pythonEdits,
}

const endingOf = (file: string) => file.slice(file.lastIndexOf('.') + 1)

export function isMutable(file: string): boolean {
  return endingOf(file) in EDITS
}

/** All there are, in the order of the text. */
export function mutationsOf(file: string, text: string): readonly Mutation[] {
  return (EDITS[endingOf(file)]?.(text) ?? []).map((edit) => mutationOf(file, text, edit))
}
