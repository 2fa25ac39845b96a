/** The page that says which built-in store can do what. */
import type { Capabilities, ServingPlugin } from '@sluice/sdk'
import { table } from './table.ts'

const INTRODUCTION = `# What the built-in stores can do

Made by \`node docs/generate.ts\` from the stores' own capability tables, which the runtime obeys and the conformance
suite proves; not to be edited. An empty cell means: not supported.
`

const yes = (value: unknown) => (value ? 'yes' : '')

const LINES: readonly (readonly [string, (capabilities: Capabilities) => string])[] = [
  ['commit', (can) => can.commit],
  ['reads', (can) => can.operations.join(', ')],
  ['filters', (can) => can.filters.join(', ')],
  ['histories', (can) => can.histories?.join(', ') ?? ''],
  ['expiry, to the', (can) => (can.ttl ? `${can.ttl.granularityMs} ms` : '')],
  ['SQL over the lake', (can) => yes(can.query)],
  ['recovers after a crash', (can) => yes(can.recover)],
  ['judges schema changes', (can) => yes(can.validate)],
  ['promotes and rolls back', (can) => yes(can.activate)],
  ['digests', (can) => yes(can.digest)],
  ['reads as JSON', (can) => yes(can.jsonBatches)],
  ['types kept exactly', (can) => typesKept(can, 'exact')],
  ['types kept with loss', (can) => typesKept(can, 'lossy')],
  ['types refused', (can) => typesKept(can, 'rejected')],
  ['rows of a read, at most', (can) => String(can.limits.maxReadRows)],
  ['bytes of a row, at most', (can) => String(can.limits.maxRowBytes)],
  ['bytes of a key, at most', (can) => (can.limits.maxKeyBytes === undefined ? '' : String(can.limits.maxKeyBytes))],
  ['names of the form', ({ limits: { namePattern } }) => (namePattern === undefined ? 'any' : `\`${namePattern}\``)],
]

function typesKept({ types }: Capabilities, how: 'exact' | 'lossy' | 'rejected'): string {
  const names = Object.entries(types).flatMap(([name, kept]) => (kept === how ? [name] : []))
  return names.length === Object.keys(types).length ? 'all' : names.join(', ')
}

export function capabilitiesPage(stores: readonly ServingPlugin[]): string {
  const header = ['', ...stores.map((store) => `${store.type} (${store.name})`)]
  const rows = LINES.map(([name, cell]) => [name, ...stores.map((store) => cell(store.capabilities))])
  return `${INTRODUCTION}\n${table(header, rows)}`
}
