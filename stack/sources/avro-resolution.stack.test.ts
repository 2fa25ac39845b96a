/** Values of Avro against an implementation that is not ours: schemas, other versions of them and records that fastavro has written and read. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { it } from 'node:test'
import { promisify } from 'node:util'
import { resolved } from '../../plugins/connectors/files/avro/resolution.ts'
import { type AvroNode, Names, parsedJson } from '../../plugins/connectors/files/avro/schema.ts'
import { newRoom } from '../../plugins/connectors/files/avro/values.ts'
import { ByteReader } from '../../plugins/connectors/files/byte-reader.ts'
import { BrokenFile } from '../../plugins/connectors/files/records.ts'

const python = process.env['SLUICE_TEST_FASTAVRO_PYTHON']
if (python === undefined)
  throw new Error('SLUICE_TEST_FASTAVRO_PYTHON names an interpreter; npm run test:stack installs it')
const SEED = 11
const COUNT = 3000

type Told = null | boolean | { readonly [kind: string]: unknown }

interface Line {
  readonly writer: unknown
  readonly reader: unknown
  readonly bytes: string
  readonly read: Told
}

/** As a column of that schema shows what fastavro has read; within documents, as JSON. */
function textOf(node: AvroNode, told: Told, isWithin = false): string | null {
  if (told === null) return isWithin ? 'null' : null
  if (node.kind === 'union') {
    const branch = node.branches.find(({ kind }) => kind !== 'null')
    assert.ok(branch)
    return textOf(branch, told, isWithin)
  }
  const { whole, double, text, bytes, list, map } = told as Readonly<Record<string, unknown>>
  if (typeof told === 'boolean') return String(told)
  if (node.kind === 'float') return String(Math.fround(Number(double ?? whole)))
  if (whole !== undefined) return String(whole)
  if (double !== undefined) return Object.is(double, -0) ? '-0' : String(double)
  const shown = (value: string) => (isWithin ? JSON.stringify(value) : value)
  if (bytes !== undefined) return shown(`\\x${bytes}`)
  if (text !== undefined) return shown(String(text))
  if (list !== undefined) {
    assert.ok(node.kind === 'array')
    return `[${(list as Told[]).map((one) => textOf(node.items, one, true)).join(',')}]`
  }
  const members = new Map(map as readonly (readonly [string, Told])[])
  if (node.kind === 'map')
    return `{${[...members].map(([name, one]) => `${JSON.stringify(name)}:${textOf(node.items, one, true)}`).join(',')}}`
  assert.ok(node.kind === 'record')
  const parts = node.fields.map(
    ({ name, node: field }) => `${JSON.stringify(name)}:${textOf(field, members.get(name) ?? null, true)}`,
  )
  return `{${parts.join(',')}}`
}

it('records of random schemas are what fastavro reads of them by other versions, and what it refuses is refused', async () => {
  const { stdout } = await promisify(execFile)(
    String(python),
    [`${import.meta.dirname}/avro_records.py`, String(SEED), String(COUNT)],
    { maxBuffer: 256 * 1024 * 1024 },
  )
  let refused = 0
  let read = 0
  for (const line of stdout.trim().split('\n')) {
    const { writer, reader, bytes, read: told } = parsedJson(line) as Line
    const by = new Names().parse(reader)
    const from = new ByteReader(Buffer.from(bytes, 'hex'))
    const take = () => {
      const found = resolved(new Names().parse(writer), by).text(from, newRoom())
      assert.equal(from.left, 0, line)
      return found
    }
    if (typeof told === 'object' && told?.['error'] !== undefined) {
      assert.throws(take, BrokenFile, line)
      refused += 1
    } else {
      assert.equal(take(), textOf(by, told), line)
      read += 1
    }
  }
  assert.equal(read + refused, COUNT)
  assert.ok(refused > COUNT / 100 && read > COUNT / 2, `${refused} refused, ${read} read`)
})
