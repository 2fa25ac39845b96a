import assert from 'node:assert/strict'
import { it } from 'node:test'
import fc from 'fast-check'
import { batchOf } from '../protocol/row-batch.ts'
import { dataRow } from '../protocol/server-messages.ts'
import { CSV, copyLines, copyTuples, TEXT } from './copy-out.ts'

const ESCAPES = new Map(
  Object.entries({ '\\': '\\\\', '\b': '\\b', '\f': '\\f', '\n': '\\n', '\r': '\\r', '\t': '\\t', '\v': '\\v' }),
)

const inText = (cell: string | null): string =>
  cell === null ? '\\N' : [...cell].map((sign) => ESCAPES.get(sign) ?? sign).join('')

/** Only where it is all of its line, a `\.` would end the rows. */
function inCsv(cell: string | null, _at: number, { length }: readonly unknown[]): string {
  if (cell === null) return ''
  return cell === '' || (cell === '\\.' && length === 1) || /[",\r\n]/.test(cell)
    ? `"${cell.replaceAll('"', '""')}"`
    : cell
}

it('rows are copied out as lines, one a message, whatever they hold', () => {
  const sign = fc.constantFrom(...ESCAPES.keys(), '"', ',', '.', 'a', 'é', '😀', '\0')
  const text = fc.oneof(fc.string({ unit: sign, maxLength: 300 }), fc.constantFrom('\\.', '\\N', ''))
  const cell = fc.option(text, { nil: null })
  fc.assert(
    fc.property(fc.array(fc.array(cell, { maxLength: 4 })), (rows) => {
      const batch = batchOf(rows.map((row) => dataRow(row.map((one) => (one === null ? null : Buffer.from(one))))))
      for (const [form, told, separator] of [
        [TEXT, inText, '\t'],
        [CSV, inCsv, ','],
      ] as const) {
        const lines = copyLines(batch, form)
        const read: string[] = []
        for (let at = 0; at < lines.length; at += 1 + lines.readInt32BE(at + 1)) {
          assert.equal(String.fromCharCode(lines[at] as number), 'd')
          read.push(lines.toString('utf8', at + 5, at + 1 + lines.readInt32BE(at + 1)))
        }
        assert.deepEqual(
          read,
          rows.map((row) => `${row.map(told).join(separator)}\n`),
        )
      }
    }),
  )
})

it('rows in binary are the rows as they are, in messages of a copy', () => {
  const cell = fc.option(fc.uint8Array({ maxLength: 300 }), { nil: null })
  fc.assert(
    fc.property(fc.array(fc.array(cell, { maxLength: 4 })), (rows) => {
      const messages = rows.map((row) => dataRow(row.map((one) => (one === null ? null : Buffer.from(one)))))
      const tuples = copyTuples(batchOf(messages))
      let at = 0
      for (const message of messages) {
        const tuple = tuples.subarray(at, at + message.length)
        assert.equal(String.fromCharCode(tuple[0] as number), 'd')
        assert.ok(tuple.subarray(1).equals(message.subarray(1)))
        at += message.length
      }
      assert.equal(at, tuples.length)
    }),
  )
})
