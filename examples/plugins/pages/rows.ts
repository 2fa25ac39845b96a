/** Rows of a dataset, read by its own login. */
import type { DashboardDataset } from '@sluice/sdk'
import pg from 'pg'
import type { Drawn } from './page.ts'
import type { Chart } from './templates.ts'

/** Every value as PostgreSQL writes it. */
const AS_TEXT = { getTypeParser: () => (text: string) => text } as unknown as pg.CustomTypesConfig

const CONNECT_MS = 5_000
const READ_MS = 60_000

/** All charts as of one moment. Throws what the driver throws, which may hold the address. */
export async function draw(dataset: DashboardDataset, charts: readonly Chart[]): Promise<readonly Drawn[]> {
  const client = new pg.Client({
    ...{ connectionString: dataset.address, application_name: 'sluice-pages', types: AS_TEXT },
    ...{ connectionTimeoutMillis: CONNECT_MS, query_timeout: READ_MS },
  })
  // What ends the connection ends the statement that is under way, too.
  client.on('error', () => undefined)
  await client.connect()
  try {
    await client.query('begin isolation level repeatable read read only')
    const drawn: Drawn[] = []
    for (const chart of charts) {
      const { fields, rows } = await client.query<(string | null)[]>({
        ...{ text: chart.sql, values: [dataset.tenant], rowMode: 'array' },
      })
      drawn.push({ ...chart, columns: fields.map(({ name }) => name), rows })
    }
    return drawn
  } finally {
    await client.end()
  }
}
