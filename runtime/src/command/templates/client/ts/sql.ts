import { type Body, SluiceConnection } from './connection.ts'
import type { Json, QueryOptions, QueryResult, SluiceOptions } from './values.ts'

const LINES = 'application/x-ndjson'
const PARQUET = 'application/vnd.apache.parquet'

/** SQL over everything that may be read: NAMESPACE.PRODUCT. */
export class SluiceClient {
  protected readonly connection: SluiceConnection

  constructor(options: SluiceOptions) {
    this.connection = new SluiceConnection(options)
  }

  query(sql: string, options: QueryOptions = {}): Promise<QueryResult> {
    return this.connection.json('POST', '/api/v1/query', queryBody(sql, options), options)
  }

  /** Rows as they come, however many. */
  async *queryRows<Row = { readonly [name: string]: Json }>(
    sql: string,
    options: QueryOptions = {},
  ): AsyncGenerator<Row, void, undefined> {
    const body = queryBody(sql, options)
    const sent = await this.connection.open('POST', '/api/v1/query', { accept: LINES }, body, options)
    let rest = ''
    for await (const text of this.connection.texts(sent)) {
      rest += text
      const lines = rest.split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) if (line !== '') yield JSON.parse(line) as Row
    }
    if (rest !== '') yield JSON.parse(rest) as Row
  }

  queryParquet(sql: string, options: QueryOptions = {}): Promise<ArrayBuffer> {
    return this.connection.bytes('/api/v1/query', queryBody(sql, options), PARQUET, options)
  }
}

function queryBody(sql: string, { params, limit, asOf, timeoutMs }: QueryOptions): Body {
  return { sql, params, limit, as_of: asOf, timeout_ms: timeoutMs }
}
