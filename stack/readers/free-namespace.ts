/**
 * The catalog of a runtime under other names: what a client calls by the free name is the sandbox, the one namespace of
 * the runtime that others make and write. Nothing else of a request or an answer is changed.
 */
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

const SANDBOX = 'sandbox'
/** The front sends bodies of another length, and compresses nothing. */
const OWN_HEADERS: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'host',
  'accept-encoding',
  'transfer-encoding',
  'expect',
])

export interface FreeNamespace {
  readonly url: string
  stop(): Promise<void>
}

/** @param url of the runtime */
export async function serveFreeNamespace(url: string, name: string): Promise<FreeNamespace> {
  const server = createServer(async (request, response) => {
    try {
      const answer = await fetch(`${url}${renamedPath(request.url ?? '/', name)}`, await forwarded(request, name))
      const body = renamedNamespace(await answer.text(), SANDBOX, name)
      response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? 'application/json' })
      response.end(body)
    } catch (error) {
      response.writeHead(502).end(String(error))
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async stop() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

async function forwarded(request: IncomingMessage, name: string): Promise<RequestInit> {
  const headers = Object.entries(request.headers).filter(([key]) => !OWN_HEADERS.has(key)) as [string, string][]
  const { method = 'GET' } = request
  if (method === 'GET' || method === 'HEAD') return { method, headers }
  const body = renamedNamespace(await text(request), name, SANDBOX)
  return { method, headers, ...(body === '' ? {} : { body }) }
}

const renamedPath = (path: string, name: string): string =>
  path.replace(new RegExp(`(/namespaces/|[?&]parent=)${name}(?=[/?&]|$)`), `$1${SANDBOX}`)

/** Bodies hold namespaces as lists of one name. Paths of files, which hold the sandbox's name too, stay as they are. */
const renamedNamespace = (body: string, from: string, to: string): string =>
  body.replaceAll(new RegExp(`\\[\\s*"${from}"\\s*\\]`, 'g'), `["${to}"]`)
