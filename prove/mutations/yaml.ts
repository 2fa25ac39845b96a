/** Values of YAML, and the SQL in them. */
import { parseAllDocuments, type Scalar, visit } from 'yaml'
import type { Edit } from './mutation.ts'
import { isSql, sqlEdits } from './sql.ts'

const MAX_WORD_CHARS = 60

export function yamlEdits(source: string): readonly Edit[] {
  const edits: Edit[] = []
  for (const document of [parseAllDocuments(source)].flat()) {
    visit(document, {
      // A key that is another changes two things: one that is missing, and one too many.
      Scalar: (key, node) => {
        if (key !== 'key') edits.push(...scalarEdits(node, source))
      },
    })
  }
  return edits.sort((left, right) => left.at - right.at)
}

function scalarEdits(node: Scalar, source: string): readonly Edit[] {
  const [at, end] = node.range ?? [0, 0]
  const from = source.slice(at, end)
  if (typeof node.value === 'string' && isSql(node.value)) return sqlEdits(from, at)
  const to = otherValue(node, from)
  return to === null ? [] : [{ at, from, to, kind: 'yaml' }]
}

/** Null where it is a text of more than a word: what people read, and tests do not. */
function otherValue({ value }: Scalar, from: string): string | null {
  if (typeof value === 'boolean') return value ? 'false' : 'true'
  if (typeof value === 'number') return /^\d+$/.test(from) ? String(value + 1) : null
  if (typeof value !== 'string' || value.length > MAX_WORD_CHARS || !/^[\w./:-]+$/.test(value)) return null
  return /^['"]/.test(from) ? `${from.slice(0, -1)}x${from.slice(-1)}` : `${from}x`
}
