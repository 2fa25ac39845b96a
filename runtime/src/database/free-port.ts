import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'

/** Below the ports that kernels give to outgoing connections, which would take one before its server listens on it. */
const PORTS = { from: 15_000, to: 30_000 } as const

const MAX_TRIES = 1_000

/** A TCP port of the host that was free a moment ago. Rejects where the host has no such address, or no port is free. */
export async function freePort(host = '127.0.0.1'): Promise<number> {
  for (let tries = 0; tries < MAX_TRIES; tries += 1) {
    const port = randomInt(PORTS.from, PORTS.to)
    if (await isFree(host, port)) return port
  }
  throw new Error(`no port of ${host} from ${PORTS.from} to ${PORTS.to} is free`)
}

function isFree(host: string, port: number): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE') resolve(false)
      else reject(error)
    })
    server.listen(port, host, () => server.close(() => resolve(true)))
  })
}
