import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { PolicyQuestion } from '@sluice/sdk'
import type { Principal } from '../../flow.ts'
import type { CatalogDeps } from './deps.ts'
import { allows } from './engine-policy.ts'

const asking = { requestId: 'r', signal: new AbortController().signal }
const person = { tenant: 'acme', isAdmin: false, isViewer: true } as Principal
const login = { tenant: null, isAdmin: true } as Principal

/** None of these questions needs anything of the runtime. */
const answers = (principal: Principal | null, question: PolicyQuestion) =>
  allows({} as CatalogDeps, asking, { user: 'vito', principal }, question)

const TABLE = { catalog: 'lakehouse_acme', schema: 'crm', table: 'people$files' }
const REFUSED: readonly PolicyQuestion[] = [
  { about: 'nothing' },
  { about: 'table', table: TABLE },
  { about: 'rows', table: TABLE },
]
const ALLOWED: readonly PolicyQuestion[] = [
  { about: 'own' },
  { about: 'catalog', catalog: 'lakehouse_acme' },
  { about: 'schema', catalog: 'lakehouse_acme', schema: 'crm' },
  { about: 'others-statement', owner: 'vito' },
]

it('refuses what is nobody’s to all, the platform’s own login among them', async () => {
  for (const question of REFUSED)
    for (const principal of [null, person, login])
      assert.equal(await answers(principal, question), false, JSON.stringify(question))
})

it('allows a person what is of the own tenant, and nobody nothing', async () => {
  for (const question of ALLOWED) {
    assert.equal(await answers(person, question), true, JSON.stringify(question))
    assert.equal(await answers(null, question), false, JSON.stringify(question))
  }
  assert.equal(await answers(person, { about: 'catalog', catalog: 'lakehouse_globex' }), false)
  assert.equal(await answers(person, { about: 'schema', catalog: 'lakehouse_acme', schema: 'raw_db' }), false)
  assert.equal(await answers(person, { about: 'others-statement', owner: 'olga' }), false)
})

it('lets the platform’s own login alone make and drop catalogs', async () => {
  assert.deepEqual(
    [await answers(login, { about: 'operation' }), await answers(person, { about: 'operation' })],
    [true, false],
  )
})
