/**
 * Uses up the files that this process may open but for so many, asks for a process of each kind, lets go of the files, and
 * asks again. Prints, for each kind, what was said and how many files are open then that were not before.
 */
import { closeSync, openSync, readdirSync } from 'node:fs'
import { EngineChild } from '../engine/src/engine-child.ts'
import { ChildPool, type PooledChild } from '../engine/src/walls/child-pool.ts'
import { DescriptorLine } from '../engine/src/walls/descriptors.ts'
import { loadLibc } from '../engine/src/walls/libc.ts'
import { pipeOpener } from '../engine/src/walls/pipe.ts'
import { SourceChild } from '../runtime/src/ingestion/source-child.ts'

const [openPipe, descriptors] = [pipeOpener(), new DescriptorLine(loadLibc())]
const KINDS: Readonly<Record<string, () => PooledChild>> = {
  engine: () => new EngineChild(openPipe, {}),
  source: () => new SourceChild(descriptors, { module: null }),
}
const LIMITS = { maxChildren: 2, warmChildren: 1, warmAfterMs: 1, maxQueued: 2 }
const never = new AbortController().signal
const openFiles = (): number => readdirSync('/proc/self/fd').length

function useUp(left: number): () => void {
  const held: number[] = []
  try {
    for (;;) held.push(openSync('/dev/null', 'r'))
  } catch {
    // There are no more.
  }
  for (const descriptor of held.splice(0, left)) closeSync(descriptor)
  return () => {
    for (const descriptor of held) closeSync(descriptor)
  }
}

const [kind = '', left] = process.argv.slice(2)
const pool = new ChildPool(KINDS[kind] as () => PooledChild, LIMITS)
const first = await pool.take('one', never, never)
first.child.kill()
await first.child.ended
await new Promise((resolve) => setTimeout(resolve, 50))
await pool.close()

const other = new ChildPool(KINDS[kind] as () => PooledChild, LIMITS)
const before = openFiles()
const letGo = useUp(Number(left))
// As a timer does it, where nobody could be told.
other.warmUp()
const said = await other.take('one', never, never).then(
  () => 'started',
  (error: { readonly code?: string }) => String(error.code ?? error),
)
letGo()
await new Promise((resolve) => setTimeout(resolve, 50))
const leaked = said === 'started' ? 0 : openFiles() - before
const again = await other.take('two', never, never).then(() => 'started', String)
await other.close()
process.stdout.write(JSON.stringify({ said, leaked, again }))
process.exit(0)
