/** What is deployed with Docker, for servers that run as they do there. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parse } from 'yaml'

interface ComposeService {
  readonly image: string
  readonly command: readonly string[]
}

export async function composeService(name: string): Promise<ComposeService> {
  const text = await readFile(join(import.meta.dirname, '../docker-compose.yml'), 'utf8')
  return parse(text, { merge: true }).services[name]
}
