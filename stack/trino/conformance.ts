/**
 * What the conformance suite needs to try the Trino store, beside its server (`SLUICE_TEST_TRINO_URL`): tables that the
 * lake itself has written, in a catalog of `SLUICE_TEST_POSTGRES_URL`.
 */
import type { Fixture } from '@sluice/conformance'
import type { TableRef } from '@sluice/iceberg'
import { commitStep } from '@sluice/iceberg/testing'
import { type LakeSnapshot, type Row, type TableSchema, type Target, variantTable } from '@sluice/sdk'
import { type RegistryLake, startRegistryLake } from '../../runtime/src/lake/testing.ts'
import { cellOf } from '../readers/cells.ts'
import { writingSelect } from '../readers/sql.ts'
import { catalogProperties } from './catalog-properties.ts'

export async function start(): Promise<Fixture> {
  const lake = await startRegistryLake()
  const engine = { query: () => Promise.reject(new Error('Trino reads the lake by itself')) }
  const writer = new TableWriter(lake)
  const url = process.env['SLUICE_TEST_TRINO_URL']
  return {
    settings: { url, catalog: await catalogProperties(lake) },
    server: await serverAt(url),
    openLake: async () => ({ engine, write: (target, rows) => writer.write(target, rows), async close() {} }),
    async restart() {},
    stop: async () => {
      await lake[Symbol.asyncDispose]()
    },
  }
}

async function serverAt(url: string | undefined): Promise<string> {
  const { nodeVersion } = (await (await fetch(`${url}/v1/info`)).json()) as { nodeVersion: { version: string } }
  return `Trino ${nodeVersion.version}`
}

/** Writes of a table follow one another, as the runtime's do: a commit starts from the table as it is. */
class TableWriter {
  readonly #lake: RegistryLake
  /** The last write of each table. */
  readonly #writing = new Map<string, Promise<unknown>>()

  constructor(lake: RegistryLake) {
    this.#lake = lake
  }

  write({ scope, domain, product, variant, schema }: Target, rows: readonly Row[]): Promise<LakeSnapshot> {
    const ref = { warehouse: scope.tenant, namespace: domain, table: variantTable(product, variant) }
    const key = JSON.stringify(ref)
    const written = (this.#writing.get(key) ?? Promise.resolve()).then(() => this.#replace(ref, schema, rows))
    this.#writing.set(
      key,
      // Told to whoever made that write; the next one follows it either way.
      written.catch(() => undefined),
    )
    return written
  }

  async #replace(ref: TableRef, schema: TableSchema, rows: readonly Row[]): Promise<LakeSnapshot> {
    const columns = schema.columns.map((column, index) => ({ ...column, id: index + 1 }))
    const written = rows.map((row) => new Map(columns.map(({ id, type }) => [id, cellOf(row[id - 1] ?? null, type)])))
    const select = writingSelect({ written, after: { columns } })
    const staged = await commitStep(this.#lake, ref, { operation: 'replace', schema, select })
    const scan = await this.#lake.lake.scan(ref)
    const fieldIds = Object.fromEntries(scan.schema.fields.map(({ name, id }) => [name, id]))
    return { snapshotId: staged.snapshotId as string, files: scan.files.map(({ uri }) => uri), fieldIds }
  }
}
