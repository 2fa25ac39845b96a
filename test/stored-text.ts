/** Everything that a folder or a database holds, as text: what a search for a value has to go through. */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { inflateRawSync } from 'node:zlib'
import { DuckDBInstance } from '@duckdb/node-api'
import type pg from 'pg'

/** Files under the folder that have one of the texts, by text: bytes as they lie there, parquet read, Avro unpacked. */
export async function filesWith(
  folder: string,
  texts: readonly string[],
  isWanted: (path: string) => boolean = () => true,
): Promise<ReadonlyMap<string, readonly string[]>> {
  const found = new Map<string, string[]>(texts.map((text) => [text, []]))
  const instance = await DuckDBInstance.create(':memory:')
  const duck = await instance.connect()
  try {
    for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
      const path = join(entry.parentPath, entry.name)
      if (!entry.isFile() || !isWanted(path)) continue
      const bytes = await readFile(path)
      const parts: Buffer[] = [bytes]
      if (path.endsWith('.avro')) parts.push(unpacked(bytes))
      if (path.endsWith('.parquet')) {
        const read = await duck.runAndReadAll(`SELECT CAST(t AS VARCHAR) FROM read_parquet('${path}') t`)
        parts.push(Buffer.from(read.getRows().flat().join('\n')))
      }
      for (const text of texts) if (parts.some((part) => part.includes(text))) found.get(text)?.push(path)
    }
  } finally {
    duck.closeSync()
    instance.closeSync()
  }
  return found
}

const SYNC_BYTES = 16

/** The blocks of an Avro container file, of the codec deflate. */
function unpacked(file: Buffer): Buffer {
  const sync = file.subarray(-SYNC_BYTES)
  const blocks: Buffer[] = []
  for (let at = file.indexOf(sync) + SYNC_BYTES; at < file.length; ) {
    const [, afterCount] = varint(file, at)
    const [size, start] = varint(file, afterCount)
    blocks.push(inflateRawSync(file.subarray(start, start + size)))
    at = start + size + SYNC_BYTES
  }
  return Buffer.concat(blocks)
}

function varint(bytes: Buffer, from: number): readonly [value: number, end: number] {
  let value = 0
  for (let at = from, factor = 1; ; at += 1, factor *= 128) {
    const byte = bytes[at] as number
    value += (byte & 127) * factor
    if (byte < 128) return [value % 2 === 0 ? value / 2 : -(value + 1) / 2, at + 1]
  }
}

/** Tables of the database with a row that has one of the texts, by text; rows that have `others` do not count. */
export async function tablesWith(
  client: pg.Client,
  texts: readonly string[],
  others: string | null = null,
): Promise<ReadonlyMap<string, string[]>> {
  const found = new Map<string, string[]>(texts.map((text) => [text, []]))
  const { rows } = await client.query(`select format('%I.%I', schemaname, tablename) as name from pg_tables
    where schemaname not in ('pg_catalog', 'information_schema')`)
  for (const { name } of rows as { readonly name: string }[]) {
    for (const text of texts) {
      const hits = await client.query(
        `select 1 from ${name} t where position($1 in t::text) > 0 and coalesce(position($2 in t::text), 0) = 0 limit 1`,
        [text, others],
      )
      if (hits.rows.length > 0) found.get(text)?.push(name)
    }
  }
  return found
}
