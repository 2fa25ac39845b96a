import assert from 'node:assert/strict'
import { createHmac, randomBytes } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import { blobValue, type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api'
import type { Column } from '@sluice/sdk'
import type { ColumnMask } from '../policy/masking.ts'
import { maskKey, maskKeySteps, REDACTED, twinColumns, twinSelect } from './mask-sql.ts'

const COLUMNS: readonly Column[] = [
  { name: 'id', type: 'integer', nullable: false },
  { name: 'na"me', type: 'string', nullable: false },
  { name: 'code', type: 'uuid', nullable: true },
  { name: 'bytes', type: 'binary', nullable: true },
]
const CODE = '6ba7b810-9dad-11d1-80b4-00c04fd430c8'
const NAMES = ['', 'Ada', 'žluťoučký kůň 🐎', "o'neil", 'x'.repeat(1000)]
const keys = { 'pii.name': randomBytes(32), 'pii.identifier': randomBytes(64) }
const pads = Object.entries(keys).map(([name, key]) => maskKey(name, key))

function mask(column: string, strategy: ColumnMask['strategy'], classification = 'pii.name'): ColumnMask {
  return { column, classification, strategy }
}

function hmac(key: Uint8Array, message: string | Uint8Array): string {
  return createHmac('sha256', key).update(message).digest('hex')
}

describe('the SELECT of a twin', () => {
  let instance: DuckDBInstance
  let connection: DuckDBConnection

  before(async () => {
    instance = await DuckDBInstance.create(':memory:', { threads: '1' })
    connection = await instance.connect()
    await connection.run('CREATE TEMP TABLE content (id INTEGER, "na""me" VARCHAR, code UUID, bytes BLOB)')
    for (const [id, name] of [...NAMES, null].entries()) {
      await connection.run('INSERT INTO content VALUES ($1, $2, $3::UUID, $4)', [
        id,
        name,
        name === null ? null : CODE,
        name === null ? null : blobValue(Buffer.from(name)),
      ])
    }
    for (const { sql, parameters } of maskKeySteps(pads)) {
      await connection.run(
        sql,
        (parameters ?? []).map((bytes) => blobValue(Buffer.from(bytes))),
      )
    }
  })

  after(() => {
    connection.closeSync()
    instance.closeSync()
  })

  async function cells(masks: readonly ColumnMask[], expression: string): Promise<readonly unknown[]> {
    const sql = `SELECT ${expression} AS shown FROM (${twinSelect('content', COLUMNS, masks, pads)}) ORDER BY id`
    return (await (await connection.run(sql)).getRowsJS()).map((row) => row[0])
  }

  it('hashes text as HMAC-SHA256 under the key of its class, whatever the length of the key', async () => {
    for (const [classification, key] of Object.entries(keys)) {
      assert.deepEqual(await cells([mask('na"me', 'hash', classification)], '"na""me"'), [
        ...NAMES.map((name) => hmac(key, name).slice(0, 32)),
        null,
      ])
    }
  })

  it('hashes a uuid into a uuid and bytes into the whole digest', async () => {
    const digest = hmac(keys['pii.name'], CODE).slice(0, 32)
    const [shown] = await cells([mask('code', 'hash')], `replace(code::VARCHAR, '-', '')`)
    assert.equal(shown, digest)
    const bytes = await cells([mask('bytes', 'hash')], 'lower(hex(bytes))')
    assert.deepEqual(bytes, [...NAMES.map((name) => hmac(keys['pii.name'], Buffer.from(name))), null])
  })

  it('redacts also what is missing', async () => {
    assert.deepEqual(new Set(await cells([mask('na"me', 'redact')], '"na""me"')), new Set([REDACTED]))
  })

  it('keeps the last four characters of long text only, and shows neither its length nor that it is missing', async () => {
    assert.deepEqual(await cells([mask('na"me', 'partial')], '"na""me"'), [
      ...['******', '******', '******ůň 🐎', '******', '******xxxx', '******'],
    ])
  })

  it('empties and leaves out columns, and says so in the schema', async () => {
    const masks = [mask('na"me', 'null'), mask('code', 'omit')]
    assert.deepEqual(new Set(await cells(masks, '"na""me"')), new Set([null]))
    await assert.rejects(cells(masks, 'code'))
    assert.deepEqual(
      twinColumns(COLUMNS, masks).map(({ name, nullable }) => [name, nullable]),
      [
        ['id', false],
        ['na"me', true],
        ['bytes', true],
      ],
    )
  })
})
