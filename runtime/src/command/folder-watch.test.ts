import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rename, rm, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { stateOf, untilOther, untilSaved } from './folder-watch.ts'
import { PARTS } from './product-files.ts'

let folder: string
const file = (part: string) => join(folder, 'people', `${part}.yaml`)

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'watch-'))
  await mkdir(join(folder, 'people'))
  for (const part of PARTS) await writeFile(file(part), 'a: 1\n')
})

afterEach(() => rm(folder, { recursive: true, force: true }))

/** Whether the watch is over, once the work was done. */
async function sawIt(work: () => Promise<unknown>): Promise<string> {
  const before = await stateOf(folder)
  const saved = untilSaved(folder, before, { everyMs: 5 })
  await work()
  const state = await saved
  assert.notEqual(state, before)
  return state
}

describe('the watch over a folder', () => {
  it('sees a file that is written in place, also by the same text', async () => {
    await sawIt(() => writeFile(file('inputs'), 'a: 2\n'))
    await sawIt(() => writeFile(file('inputs'), 'a: 2\n'))
  })

  it('sees a file that another is put in the place of, of the same size and age', async () => {
    const age = new Date('2026-01-01T00:00:00Z')
    await utimes(file('inputs'), age, age)
    await sawIt(async () => {
      await writeFile(join(folder, '.inputs.swp'), 'a: 3\n')
      await utimes(join(folder, '.inputs.swp'), age, age)
      await rename(join(folder, '.inputs.swp'), file('inputs'))
    })
  })

  it('sees a file that goes and comes back, and a product that is new', async () => {
    await sawIt(() => rm(file('quality')))
    await sawIt(() => writeFile(file('quality'), 'a: 1\n'))
    await sawIt(async () => {
      await mkdir(join(folder, 'orders'))
      await writeFile(join(folder, 'orders', 'product.yaml'), 'a: 1\n')
    })
  })

  it('sees a folder that goes, and one that comes back', async () => {
    const gone = await sawIt(() => rename(folder, `${folder}-away`))
    assert.match(gone, /cannot be read/)
    await sawIt(() => rename(`${folder}-away`, folder))
  })

  it('is not over before two looks find the same, and not where that is what there was', async () => {
    const found = ['was', 'one', 'was', 'two', 'three', 'three', 'four']
    const saved = await untilOther(async () => found.shift() as string, 'was', { everyMs: 1 })
    assert.deepEqual([saved, found], ['three', ['four']])
  })

  it('looks at nothing but manifests', async () => {
    const before = await stateOf(folder)
    await writeFile(join(folder, 'people', 'notes.txt'), 'x')
    await writeFile(join(folder, 'people', '.product.yaml.swp'), 'x')
    assert.equal(await stateOf(folder), before)
  })

  it('ends with its signal', async () => {
    const waiting = untilSaved(folder, await stateOf(folder), { everyMs: 5, signal: AbortSignal.timeout(20) })
    await assert.rejects(waiting, { name: 'AbortError' })
  })
})
