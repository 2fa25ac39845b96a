import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type RegistryLake, startRegistryLake } from '../lake/testing.ts'
import { openSources, productOf, SIZES, type Sources } from './touched-keys.fixture.ts'

let lake: RegistryLake
let sources: Sources

before(async () => {
  lake = await startRegistryLake()
  sources = await openSources(lake)
})
after(async () => {
  sources.close()
  await lake[Symbol.asyncDispose]()
})

const key = (name: string) => [{ name, type: 'long' }] as const

test('of groups and joins the touched keys alone are made, and written', async (t) => {
  const grouped = {
    sql: `SELECT p.grp, p.lvl, CAST(count(*) AS VARCHAR) AS n, CAST(sum(p.pay) AS VARCHAR) AS pay, max(s.city) AS city
      FROM people AS p LEFT JOIN staff AS s ON p.grp = s.id GROUP BY p.grp, p.lvl`,
    keys: [...key('grp'), ...key('lvl')],
    values: ['n', 'pay', 'city'],
    tables: ['people', 'staff'],
    where: { people: 'grp IS NOT NULL' },
  }
  const joined = {
    sql: `SELECT p.id, CAST(p.pay + coalesce(s.pay, 0) AS VARCHAR) AS pay, x.city FROM people AS p
      LEFT JOIN staff AS s ON p.grp = s.id AND s.lvl > 3 JOIN seen AS x ON x.id = s.day`,
    keys: key('id'),
    values: ['pay', 'city'],
    tables: ['people', 'staff', 'seen'],
    where: { staff: 'pay IS DISTINCT FROM 9' },
  }
  const products = [grouped, joined].map((asked) => ({ asked, product: productOf(lake, sources, asked) }))
  const whole: number[] = []
  for (const { product } of products) {
    const first = await product.epoch()
    assert.equal(first.isByKeys, false)
    whole.push(first.written)
  }
  // A hundredth of the rows, of few groups; one of them comes into another group, and one has none any more.
  const rows = await sources.told(`SELECT id, pay, grp, lvl FROM raw_people WHERE grp IN (11, 12, 13) ORDER BY id`)
  assert.equal(rows.length, SIZES.people / 100)
  const changed = rows.map(([id, , grp, lvl], at) => {
    const group = at === 0 ? '14' : at === 1 ? null : String(grp)
    return [String(id), '1000', group, String(lvl), null, 'new', null, 'oslo', '1.25', 'nan']
  })
  await sources.change('people', changed, [])
  for (const [at, { asked, product }] of products.entries()) {
    const counted = await product.epoch()
    assert.equal(counted.isByKeys, true)
    t.diagnostic(`rows made ${counted.made}, written ${counted.written} of ${whole[at]}`)
    assert.ok(
      counted.written > 0 && counted.written <= 0.05 * (whole[at] as number),
      `${counted.written} of ${whole[at]}`,
    )
    // As they were and as they are, and what joins to them.
    assert.ok(counted.made <= 0.05 * SIZES.people, String(counted.made))
    for (const [variant, hashed] of Object.entries(product.hashed)) {
      assert.deepEqual(await product.rows(variant), await sources.expected(asked, hashed), variant)
    }
  }
})
