import { SluiceError } from '@sluice/sdk'

export interface Page {
  readonly names: readonly string[]
  /** Null where nothing follows. */
  readonly nextToken: string | null
}

const MAX_PAGE = 1_000

/**
 * One page of names. As the specification asks, a client that sends neither token nor size gets all of them.
 * @param token what the page before gave; empty for the first page
 */
export function pageOf(names: readonly string[], token: string | undefined, size: number | undefined): Page {
  const sorted = names.toSorted(compare)
  if (token === undefined && size === undefined) return { names: sorted, nextToken: null }
  const after = token === undefined || token === '' ? null : readToken(token)
  const rest = after === null ? sorted : sorted.filter((name) => compare(name, after) > 0)
  const page = rest.slice(0, Math.min(size ?? MAX_PAGE, MAX_PAGE))
  const last = page.at(-1)
  return { names: page, nextToken: last !== undefined && page.length < rest.length ? toToken(last) : null }
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

const VERSION = '1:'

const toToken = (name: string): string => Buffer.from(VERSION + name).toString('base64url')

function readToken(token: string): string {
  const text = Buffer.from(token, 'base64url').toString()
  if (text.startsWith(VERSION)) return text.slice(VERSION.length)
  throw new SluiceError('INVALID_DATA', 'the page token is none that this server gave', {
    code: 'catalog_page_token_invalid',
    remedy: 'Start again without a pageToken.',
  })
}
