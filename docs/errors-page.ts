/** The page of every error code that an answer may carry. */
import { ERROR_KINDS } from '@sluice/sdk'
import { ERROR_CODES, errorCode } from '../runtime/src/http/codes.ts'
import { table } from './table.ts'

const INTRODUCTION = `# Error codes

Made by \`node docs/generate.ts\` from \`runtime/src/http/codes.ts\`; not to be edited.

Every refusal is a document of the type \`application/problem+json\`. Its \`code\` is stable: programs decide by it.
`

const OTHERS = `
## Codes that are not in the table

Stores and connectors, third-party ones too, have codes of their own, which appear in logs of runs. Where one reaches
an answer, its kind decides:
`

export function errorsPage(): string {
  const codes = Object.entries(ERROR_CODES)
    .sort(([a, left], [b, right]) => left.status - right.status || (a < b ? -1 : 1))
    .map(([code, { status, title, remedy }]) => [`\`${code}\``, String(status), title, remedy])
  const kinds = ERROR_KINDS.map((kind) => {
    const { status, title, remedy } = errorCode('', kind)
    return [kind, String(status), title, remedy]
  })
  const columns = ['status', 'title', 'what to do']
  return `${INTRODUCTION}\n${table(['code', ...columns], codes)}${OTHERS}\n${table(['kind', ...columns], kinds)}`
}
