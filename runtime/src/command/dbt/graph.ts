/** What is made of what: models, those that are inlined left out, and the order that they are carried in. */
import { type DbtNode, type DbtProject, fieldOf, textOf } from './artifacts.ts'

export interface Graph {
  readonly models: readonly DbtNode[]
  /** Nodes that the model's SQL reads, ephemeral ones replaced by what those read. */
  readsOf(id: string): ReadonlySet<string>
  /** By model or other node that tests are of. */
  readonly tests: ReadonlyMap<string, readonly DbtNode[]>
  /** Of relationships, the node that is referred to, where looking there makes no circle. */
  readonly compared: ReadonlyMap<string, string>
  /** Each after all that it reads or is compared with. Models in a circle are left out. */
  readonly order: readonly DbtNode[]
}

export const isInlined = ({ kind, materialized }: DbtNode): boolean => kind === 'model' && materialized === 'ephemeral'

export function graphOf(project: DbtProject): Graph {
  const all = [...project.nodes.values()]
  const models = all.filter((node) => node.kind === 'model' && !isInlined(node)).toSorted(byId)
  const reads = new Map(models.map((model) => [model.id, readsThrough(model, project)]))
  const tests = all.filter(({ kind }) => kind === 'test').toSorted(byId)
  const owners = new Map(tests.map((test) => [test.id, ownerOf(test, project, reads)]))
  const after = new Map([...reads].map(([id, own]) => [id, new Set(own)]))
  const compared = new Map<string, string>()
  for (const test of tests) {
    const owner = owners.get(test.id) ?? ''
    const [other, ...more] = test.dependsOn.filter((id) => id !== owner && project.nodes.has(id))
    if (test.test?.name !== 'relationships' || other === undefined || more.length > 0 || !after.has(owner)) continue
    if (isInlined(project.nodes.get(other) as DbtNode) || leadsTo(other, owner, after)) continue
    compared.set(test.id, other)
    after.get(owner)?.add(other)
  }
  return {
    models,
    readsOf: (id) => reads.get(id) ?? new Set(),
    tests: Map.groupBy(tests, ({ id }) => owners.get(id) ?? ''),
    compared,
    order: ordered(models, after),
  }
}

const byId = (a: DbtNode, b: DbtNode): number => (a.id < b.id ? -1 : 1)

function readsThrough(model: DbtNode, { nodes }: DbtProject): ReadonlySet<string> {
  const seen = new Set(model.dependsOn)
  // Grows while it is gone through.
  for (const id of seen) {
    const node = nodes.get(id)
    if (node !== undefined && isInlined(node)) for (const inner of node.dependsOn) seen.add(inner)
  }
  return new Set([...seen].filter((id) => nodes.has(id) && !isInlined(nodes.get(id) as DbtNode)))
}

/** Older manifests do not say which model a test is of, and singular tests never do. */
function ownerOf(test: DbtNode, { nodes }: DbtProject, reads: ReadonlyMap<string, ReadonlySet<string>>): string | null {
  if (test.attachedTo !== null) return test.attachedTo
  const named = test.dependsOn.filter((id) => nodes.has(id))
  const told = textOf(fieldOf(test.test?.arguments, 'model')) ?? ''
  const byWord = named.filter((id) => told.includes(`'${nodes.get(id)?.name}'`))
  if (byWord.length === 1 || named.length === 1) return (byWord[0] ?? named[0]) as string
  return named.find((id) => named.every((other) => other === id || reads.get(id)?.has(other))) ?? null
}

function leadsTo(from: string, to: string, after: ReadonlyMap<string, ReadonlySet<string>>): boolean {
  const seen = new Set([from])
  for (const id of seen) for (const next of after.get(id) ?? []) seen.add(next)
  return seen.has(to)
}

function ordered(models: readonly DbtNode[], after: ReadonlyMap<string, ReadonlySet<string>>): readonly DbtNode[] {
  const done = new Set<string>()
  const order: DbtNode[] = []
  let left = models
  for (let before = -1; before !== order.length; ) {
    before = order.length
    const isReady = ({ id }: DbtNode) => [...(after.get(id) ?? [])].every((one) => done.has(one) || !after.has(one))
    const ready = left.filter(isReady)
    order.push(...ready)
    for (const { id } of ready) done.add(id)
    left = left.filter(({ id }) => !done.has(id))
  }
  return order
}
