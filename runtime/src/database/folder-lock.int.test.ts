import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, it } from 'node:test'
import { isSluiceError } from '@sluice/sdk'
import { lockFolder } from './folder-lock.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-lock-'))
after(() => rmSync(folder, { recursive: true }))

const module = new URL('./folder-lock.ts', import.meta.url).href
const HOLD = `
import { lockFolder } from ${JSON.stringify(module)}
try { lockFolder(process.argv[1]); process.stdout.write('held') } catch (error) { process.stdout.write(error.code) }
process.stdin.resume()`

/** A process that tries for the lock, says how it went and stays until its input ends. */
async function contender(): Promise<{ child: ChildProcess; said: string }> {
  const child = spawn(process.execPath, ['--input-type=module', '-e', HOLD, folder], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const [said] = await once(child.stdout as NodeJS.ReadableStream, 'data')
  return { child, said: String(said) }
}

async function kill(child: ChildProcess): Promise<void> {
  const exited = once(child, 'exit')
  child.kill('SIGKILL')
  await exited
}

it('is had by one process at a time, and by the next one after kill -9', async () => {
  const holder = await contender()
  assert.equal(holder.said, 'held')
  assert.throws(
    () => lockFolder(folder),
    (error) =>
      isSluiceError(error, 'CONFIG') &&
      error.code === 'data_folder_in_use' &&
      error.details?.pid === holder.child.pid &&
      error.message.includes(`pid ${holder.child.pid}`),
  )
  await kill(holder.child)
  lockFolder(folder).release()
})

it('is had by exactly one of many that try at once', async () => {
  const all = await Promise.all(Array.from({ length: 5 }, contender))
  assert.deepEqual(all.map(({ said }) => said).sort(), [...Array(4).fill('data_folder_in_use'), 'held'])
  await Promise.all(all.map(({ child }) => kill(child)))
})

it('does not believe a file that names a living process', () => {
  writeFileSync(join(folder, 'runtime.lock'), JSON.stringify({ pid: process.ppid, processStart: null, since: '' }))
  const lock = lockFolder(folder)
  assert.throws(() => lockFolder(folder), /this very process/)
  lock.release()
  lock.release()
  lockFolder(folder).release()
})
