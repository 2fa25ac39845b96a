/**
 * What callers write is read in the runtime's own thread by patterns that take a text's length of steps, and not its square: of a text
 * of this length the square would be minutes, in which nobody else is answered.
 */
import { it } from 'node:test'
import type { LogicalType } from '@sluice/sdk'
import { mayBeValue } from '../runtime/src/ingestion/erasure/known-value.ts'
import { parseValue } from '../runtime/src/operations/reads/parse-value.ts'
import { OID } from '../runtime/src/wire/values/column-types.ts'
import { valueOf } from '../runtime/src/wire/values/parameters.ts'

const LENGTH = 200_000
const PARTS = ['0', '7', '00:', '.0', ' ', '{']
/** They begin as a value does, and never end as one. */
const TEXTS = PARTS.flatMap((part) => ['', '0.'].map((head) => `${head}${part.repeat(LENGTH / part.length)}!`))
const TYPES: readonly LogicalType[] = [
  ...(['boolean', 'integer', 'long', 'float', 'double', 'decimal(38,9)'] as const),
  ...(['date', 'timestamp', 'timestamptz', 'uuid', 'binary', 'json', 'string'] as const),
]

function read(of: (text: string) => unknown): void {
  for (const text of TEXTS) {
    try {
      of(text)
    } catch {
      // Refused, or taken for what it is: either way at once.
    }
  }
}

it('parameters of clients of PostgreSQL are read at once, however long', () => {
  for (const oid of Object.values(OID)) read((text) => valueOf(oid, { format: 0, bytes: Buffer.from(text) }))
})

it('values of filters and keys are read at once, however long', () => {
  for (const type of TYPES) read((text) => parseValue(text, type, 'filter'))
})

it('texts of sources are held against the key of an erased row at once, however long', () => {
  for (const type of TYPES) read((text) => mayBeValue(text, { text: '7', type }))
})
