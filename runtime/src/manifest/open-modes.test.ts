import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { compareManifests } from './compatibility.ts'
import { type Edit, parseEdited } from './editing.ts'
import type { ManifestSet } from './manifest-set.ts'
import { asWritten, byLog, leavesModeOpen, withModesOf } from './open-modes.ts'

/** What an input says; and whether the mode is left open then. */
const WRITTEN: readonly (readonly [more: string, isOpen: boolean])[] = [
  ['', true],
  ['where: id > 1', true],
  ['on_schema_change: freeze', true],
  ['mode: full', false],
  ['mode: incremental\n    cursor_column: created_at', false],
  ['mode: cdc', false],
  ['cursor_column: created_at', false],
  ['primary_key: [id]', false],
  ['deletes: key_sweep', false],
  ['deletes: unseen\n    deletes_reason: rows are only added', false],
]

/** With another word in place of how the second input is read. */
async function written(more: string): Promise<ManifestSet> {
  const lines = more === '' ? '' : `    ${more}\n`
  const edit: Edit = ['inputs', "    mode: full\n    where: status <> 'cancelled'\n", lines]
  const parsed = await parseEdited('customers', [edit])
  assert.ok(parsed.ok, JSON.stringify(parsed.ok || parsed.problems))
  return parsed.manifests
}

const open = ({ inputs }: ManifestSet) => inputs.filter(leavesModeOpen)

/** As it is kept where the log was taken. */
const byTheLog = (manifests: ManifestSet): ManifestSet => ({
  ...manifests,
  inputs: manifests.inputs.map((input) => (leavesModeOpen(input) ? byLog(input) : input)),
})

describe('modes that nobody writes', () => {
  it('are left open by inputs that say nothing which has no place beside a log', async () => {
    for (const [more, isOpen] of WRITTEN) {
      const names = open(await written(more)).map(({ name }) => name)
      assert.deepEqual(names, isOpen ? ['orders'] : [], more)
    }
  })

  it('make no other manifests of it, nor other inputs, whichever of two versions has taken the log', async () => {
    const plain = await written('')
    const chosen = byTheLog(plain)
    assert.deepEqual(chosen.inputs.map(asWritten), plain.inputs)
    for (const [live, next] of [
      [plain, chosen],
      [chosen, plain],
      [chosen, chosen],
    ] as const)
      assert.deepEqual(compareManifests(live, next).changes, [])
    const said = compareManifests(chosen, await written('mode: cdc')).changes
    assert.deepEqual(
      said.map(({ subject }) => subject),
      ['inputs', 'inputs.deletes'],
    )
  })

  it('come back with the manifests that were deployed with them, and with no others', async () => {
    const plain = await written('')
    const chosen = byTheLog(plain)
    assert.deepEqual(withModesOf(chosen, plain), chosen)
    assert.deepEqual(withModesOf(plain, plain), plain)
    const full = await written('mode: full')
    assert.deepEqual(withModesOf(chosen, full), full)
    const elsewhere = { ...plain, inputs: plain.inputs.map((input) => ({ ...input, table: 'public.other' })) }
    assert.deepEqual(withModesOf(chosen, elsewhere), elsewhere)
  })
})
