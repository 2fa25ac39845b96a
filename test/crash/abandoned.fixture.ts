/** Starts a runtime on the folder that it is told, says so, and waits to be killed. */
import { RuntimeProcess } from './runtime-process.ts'

const runtime = await RuntimeProcess.spawn(process.argv[2] as string, null)
process.stdout.write(JSON.stringify({ url: await runtime.address() }))
setInterval(() => undefined, 60_000)
