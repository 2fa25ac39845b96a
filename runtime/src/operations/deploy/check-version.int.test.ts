/** Which number a version may have, after those that were in service. */
import assert from 'node:assert/strict'
import { after, it } from 'node:test'
import { inTransaction } from '../../database/pools.ts'
import { compareManifests } from '../../manifest/compatibility.ts'
import { inBrief, parseEdited } from '../../manifest/editing.ts'
import type { ManifestSet } from '../../manifest/manifest-set.ts'
import type { Product } from '../../registry/products.ts'
import { startTestRegistry } from '../../registry/testing.ts'
import { saveVersion } from '../../registry/versions.ts'
import { versionProblem } from './check-version.ts'
import type { Checked } from './checked.ts'
import type { DeployDeps } from './deps.ts'

const registry = await startTestRegistry()
const { pool } = registry
after(() => registry[Symbol.asyncDispose]())

const ANN = { issuer: 'https://issuer.example', subject: 'ann' }

/** With `note`, or another type in place of it, readers have a column that they lose without it. */
const SHAPES: Readonly<Record<string, string>> = {
  bare: 'partitioning:',
  noted: '  - name: note\n    type: string\npartitioning:',
  counted: '  - name: note\n    type: long\npartitioning:',
}

async function shaped(shape: string): Promise<ManifestSet> {
  const parsed = await parseEdited('customers', [['output', 'partitioning:', SHAPES[shape] ?? '']])
  assert.ok(parsed.ok, inBrief(parsed.problems).join('\n'))
  return parsed.manifests
}

type Numbered = readonly [version: string, shape: string]

/** In their order the versions that were deployed, the one in service, the next; and whom it may not break, as which it may be deployed. */
const CASES: readonly (readonly [readonly Numbered[], live: string, next: Numbered, told: string | null])[] = [
  [[['1.0.0', 'noted']], '1.0.0', ['1.1.0', 'noted'], null],
  [[['1.0.0', 'noted']], '1.0.0', ['1.1.0', 'bare'], '1.0.0: 2.0.0'],
  [[['1.0.0', 'noted']], '1.0.0', ['2.0.0', 'bare'], null],
  [
    [
      ['1.0.0', 'noted'],
      ['2.0.0', 'bare'],
    ],
    '1.0.0',
    ['1.1.0', 'counted'],
    '1.0.0: 3.0.0',
  ],
  // After a rollback, or a lower number: what was in service under the major number counts too.
  [
    [
      ['1.0.0', 'noted'],
      ['2.0.0', 'bare'],
    ],
    '1.0.0',
    ['2.0.1', 'bare'],
    null,
  ],
  [
    [
      ['1.0.0', 'noted'],
      ['2.0.0', 'bare'],
    ],
    '1.0.0',
    ['2.0.1', 'counted'],
    null,
  ],
  [
    [
      ['1.0.0', 'noted'],
      ['2.0.0', 'counted'],
    ],
    '1.0.0',
    ['2.0.1', 'bare'],
    '2.0.0: 3.0.0',
  ],
  [
    [
      ['2.0.0', 'noted'],
      ['1.5.0', 'noted'],
    ],
    '1.5.0',
    ['2.0.1', 'bare'],
    '2.0.0: 3.0.0',
  ],
  [
    [
      ['1.0.0', 'noted'],
      ['2.9.0', 'counted'],
      ['2.10.0', 'bare'],
    ],
    '1.0.0',
    ['2.10.1', 'bare'],
    null,
  ],
  [
    [
      ['1.0.0', 'noted'],
      ['2.0.0', 'counted'],
      ['3.0.0', 'noted'],
    ],
    '1.0.0',
    ['2.0.1', 'bare'],
    '2.0.0: 4.0.0',
  ],
  // What breaks nobody who reads now may have any number that is free.
  [
    [
      ['1.0.0', 'bare'],
      ['2.0.0', 'noted'],
    ],
    '1.0.0',
    ['2.1.0', 'bare'],
    null,
  ],
  // As it was: no other than who read it then.
  [
    [
      ['1.0.0', 'noted'],
      ['2.0.0', 'counted'],
      ['2.0.1', 'bare'],
    ],
    '1.0.0',
    ['2.0.1', 'bare'],
    null,
  ],
  [
    [
      ['1.0.0', 'noted'],
      ['2.0.0-rc.1', 'counted'],
    ],
    '1.0.0',
    ['2.0.0', 'bare'],
    null,
  ],
  [[['2.0.0-rc.1', 'noted']], '2.0.0-rc.1', ['2.0.0', 'bare'], '2.0.0-rc.1: 3.0.0'],
]

for (const [deployed, live, next, told] of CASES) {
  const before = deployed.map((one) => one.join(' ')).join(', ')
  it(`${next.join(' ')} after ${before}, with ${live} in service: ${told ?? 'may be'}`, async () => {
    const product = await registry.product(await registry.tenant())
    for (const [version, shape] of deployed) {
      const normalised = await shaped(shape)
      const kept = {
        productId: product.id,
        version,
        manifests: {},
        normalised,
        digest: normalised.digest,
        deployedBy: ANN,
      }
      await inTransaction(pool, (tx) => saveVersion(tx, kept))
    }
    const manifests = await shaped(next[1])
    const liveShape = deployed.find(([version]) => version === live)?.[1] ?? ''
    const plan = { version: next[0], ...compareManifests(await shaped(liveShape), manifests) }
    const checked = { product: { ...product, currentVersion: live } as Product, manifests, plan } as unknown as Checked
    const problem = await versionProblem({ pool } as unknown as DeployDeps, checked)
    const [broken, remedy] = told?.split(': ') ?? []
    const expected = told === null ? null : `the changes break readers of version ${broken}; Deploy it as ${remedy}.`
    assert.equal(problem && `${problem.message}; ${problem.remedy}`, expected)
    if (problem) assert.equal(problem.code, 'breaking_change')
  })
}
