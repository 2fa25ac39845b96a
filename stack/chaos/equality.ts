/** After one more sync every store, and the lake, hold what the source holds, each reader's masks aside. */
import assert from 'node:assert/strict'
import type pg from 'pg'
import { Client } from '../../acceptance/client.ts'
import { faultsOf, KINDS, type Kind, type Shown, shownRows } from './judge.ts'
import { DOMAIN, PRODUCT, ROWS, rowsOf, type Tenant } from './world.ts'

const ids = Array.from({ length: ROWS }, (_, index) => index + 1)
const path = `/api/v1/products/${PRODUCT}`

export async function assertAllEqual(url: string, source: pg.Client, tenants: readonly Tenant[]): Promise<void> {
  for (const tenant of tenants) {
    const { body } = await tenant.developer.post('/api/v1/connections/db/sync')
    assert.equal((await tenant.developer.untilEnded(body.id)).state, 'succeeded')
    const wanted = await rowsOf(source, tenant.slug)
    for (const person of tenant.people) {
      const client = new Client(url, person.token)
      for (const kind of KINDS) {
        const rows = await allRows(client, kind)
        const where = `${tenant.slug}/${person.name} ${kind}`
        assert.deepEqual(faultsOf(person, { kind, path: '', ids }, rows), [], where)
        const open = ({ email: _, ...rest }: Shown) => rest
        assert.deepEqual(rows.map(shownColumns).map(open), wanted.map(open), where)
      }
    }
    const { body: product } = await tenant.developer.get(path)
    assert.equal(product.status, 'deployed', JSON.stringify(product))
  }
}

export async function allRows(client: Client, kind: Kind): Promise<readonly Shown[]> {
  if (kind === 'realtime') {
    const answers = await Promise.all(ids.map((id) => client.get(`${path}/realtime?key=person:${id}`)))
    return answers.flatMap(({ body }) => shownRows(kind, body))
  }
  const answer =
    kind === 'query'
      ? await client.post('/api/v1/query', {
          sql: `select id, tenant, email, city, version, amount from ${DOMAIN}.${PRODUCT} order by id`,
        })
      : await client.get(`${path}/${kind === 'lookup' ? 'latest' : 'timeseries'}?limit=1000`)
  assert.equal(answer.status, 200, JSON.stringify(answer.body))
  return shownRows(kind, answer.body).toSorted((left, right) => left.id - right.id)
}

export const shownColumns = ({ id, tenant, email, city, version, amount }: Shown): Shown => {
  return { id, tenant, email, city, version, amount }
}
