/** Where connections of tenants may go. Decided once per connection attempt, and the address is then used as it is. */
import { lookup } from 'node:dns/promises'
import { BlockList, isIP, SocketAddress } from 'node:net'
import { networkInterfaces } from 'node:os'
import { type NetworkPolicy, SluiceError } from '@sluice/sdk'

export interface NetworkRules {
  readonly allowLoopback: boolean
  /** Private ranges that are allowed, as CIDR. */
  readonly allow: readonly string[]
  readonly allowCleartextPasswords: boolean
  /** The platform's own servers, by name or address, which nobody may connect to; without a port, at any. */
  readonly ownEndpoints: () => readonly { readonly address: string; readonly port: number | null }[]
}

type Ranges = readonly (readonly [string, number, 'ipv4' | 'ipv6'])[]

/**
 * Link-local (cloud metadata among it), multicast, unspecified and reserved addresses: never a data source. Nor are
 * IPv6 addresses that carry an IPv4 address to a relay where nobody can say which (IPv4-compatible, SIIT, Teredo): they
 * would lead past the rules.
 */
const NEVER: Ranges = [
  ['0.0.0.0', 8, 'ipv4'],
  ['169.254.0.0', 16, 'ipv4'],
  ['192.0.0.0', 24, 'ipv4'],
  ['224.0.0.0', 3, 'ipv4'],
  ['::', 96, 'ipv6'],
  ['::ffff:0:0:0', 96, 'ipv6'],
  ['2001::', 32, 'ipv6'],
  ['fec0::', 10, 'ipv6'],
  ['fe80::', 10, 'ipv6'],
  ['ff00::', 8, 'ipv6'],
  ['fd00:ec2::254', 128, 'ipv6'],
]

const LOOPBACK: Ranges = [
  ['127.0.0.0', 8, 'ipv4'],
  ['::1', 128, 'ipv6'],
]

/**
 * What the registries of special-purpose addresses (RFC 6890, as IANA keeps them) do not call globally reachable, or
 * keep for protocols: private networks, shared space, documentation, benchmarks, relays of 6to4.
 */
const INNER_IPV4: Ranges = [
  ['10.0.0.0', 8, 'ipv4'],
  ['100.64.0.0', 10, 'ipv4'],
  ['172.16.0.0', 12, 'ipv4'],
  ['192.0.2.0', 24, 'ipv4'],
  ['192.88.99.0', 24, 'ipv4'],
  ['192.168.0.0', 16, 'ipv4'],
  ['198.18.0.0', 15, 'ipv4'],
  ['198.51.100.0', 24, 'ipv4'],
  ['203.0.113.0', 24, 'ipv4'],
]

/** Of IPv6 only this much is given out (RFC 4291); private networks, translators' own prefixes and the rest lie outside. */
const GLOBAL_IPV6: Ranges = [['2000::', 3, 'ipv6']]

/** Within it: what is kept for protocols, benchmarks among it, and for documentation. */
const INNER_IPV6: Ranges = [
  ['2001::', 23, 'ipv6'],
  ['2001:db8::', 32, 'ipv6'],
  ['3fff::', 20, 'ipv6'],
]

/** IPv6 addresses that are an IPv4 address behind a translator (RFC 6052) or a relay (6to4), and where it stands in them. */
const EMBEDDING: readonly (readonly [...Ranges[number], word: number])[] = [
  ['64:ff9b::', 96, 'ipv6', 6],
  ['2002::', 16, 'ipv6', 1],
]

/** All addresses of a name, as the system resolves it. */
export type LookUp = (host: string) => Promise<readonly { readonly address: string }[]>

const bySystem: LookUp = (host) => lookup(host, { all: true })

export function createNetworkPolicy(rules: NetworkRules, lookUp: LookUp = bySystem): NetworkPolicy {
  const never = blockList(NEVER)
  const loopback = blockList(LOOPBACK)
  const innerIpv4 = blockList(INNER_IPV4)
  const innerIpv6 = blockList(INNER_IPV6)
  const globalIpv6 = blockList(GLOBAL_IPV6)
  const allowed = new BlockList()
  for (const range of rules.allow) addCidr(allowed, range)
  const ownAddresses = addressesOf(lookUp)
  const isOwn = async (address: string, family: 'ipv4' | 'ipv6', port: number): Promise<boolean> => {
    const hosts = rules.ownEndpoints().filter((own) => own.port === null || own.port === port)
    const own = (await Promise.all(hosts.map(({ address: host }) => ownAddresses(host)))).flat()
    return own.some((one) => sameHost(one, address, loopback, family))
  }
  const isGlobal = (address: string, family: 'ipv4' | 'ipv6'): boolean =>
    family === 'ipv4'
      ? !innerIpv4.check(address, family)
      : globalIpv6.check(address, family) && !innerIpv6.check(address, family)
  const isAllowed = async (address: string, family: 'ipv4' | 'ipv6', port: number): Promise<boolean> => {
    const isLoopback = loopback.check(address, family)
    if (never.check(address, family) && !isLoopback) return false
    if (await isOwn(address, family, port)) return false
    const embedded = embeddedIn(address, family)
    // What a translator reaches as its own loopback is nothing of ours.
    if (embedded !== null) return !loopback.check(embedded, 'ipv4') && isAllowed(embedded, 'ipv4', port)
    if (allowed.check(address, family)) return true
    return isLoopback ? rules.allowLoopback : isGlobal(address, family)
  }
  return {
    async resolve(host, port, signal) {
      signal.throwIfAborted()
      const found = await notLonger(resolveOnce(host, lookUp), signal)
      const [address, family] = canonical(found.address)
      const judged = isAllowed(address, family === 4 ? 'ipv4' : 'ipv6', port)
      if (await notLonger(judged, signal)) return { address, family }
      throw new SluiceError('PERMISSION', 'connections to that address are not allowed', {
        code: 'address_refused',
        remedy: 'Use an address of the public internet, or let the operator allow the range under network.allow.',
      })
    },
    allowsCleartextPassword(address) {
      return rules.allowCleartextPasswords || loopback.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')
    },
  }
}

/**
 * A server that listens on a loopback address, or on every address, is met at each loopback address; one that listens on every
 * address, at all others that this machine has, too.
 */
function sameHost(own: string, address: string, loopback: BlockList, family: 'ipv4' | 'ipv6'): boolean {
  if (own === address) return true
  const isOnAll = own === '0.0.0.0' || own === '::'
  if (isOnAll && addressesHere().includes(address)) return true
  const isLocal = isOnAll || loopback.check(own, isIP(own) === 6 ? 'ipv6' : 'ipv4')
  return isLocal && loopback.check(address, family)
}

/** As they are now: networks come and go. */
function addressesHere(): readonly string[] {
  const all = Object.values(networkInterfaces()).flatMap((found) => found ?? [])
  return all.map(({ address }) => canonical(address)[0])
}

/**
 * Of our own servers. A name that cannot be resolved just now has the addresses that it had; where none are known, nobody can
 * say what is ours, and nothing is let through. A name that does not exist (ENOTFOUND) leads nowhere.
 */
function addressesOf(lookUp: LookUp): (host: string) => Promise<readonly string[]> {
  const known = new Map<string, readonly string[]>()
  return async (host) => {
    if (isIP(host)) return [canonical(host)[0]]
    try {
      const found = (await lookUp(host)).map(({ address }) => canonical(address)[0])
      known.set(host, found)
      return found
    } catch (cause) {
      const before = known.get(host)
      if (before !== undefined) return before
      if ((cause as NodeJS.ErrnoException).code === 'ENOTFOUND') return []
      throw new SluiceError('TRANSIENT', 'whether an address is one of this server’s own cannot be told now', {
        code: 'host_not_found',
        remedy: 'Try again; if it persists, the operator checks the DNS that this server uses.',
        cause,
      })
    }
  }
}

async function resolveOnce(host: string, lookUp: LookUp): Promise<{ readonly address: string }> {
  if (isIP(host)) return { address: host }
  if (!/^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/i.test(host)) throw unresolvable()
  const [first] = await lookUp(host).catch((cause: unknown) => {
    throw unresolvable(cause)
  })
  if (first === undefined) throw unresolvable()
  return first
}

/**
 * The system looks a name up for as long as its servers say nothing, and nobody can call it off; whoever waits for it goes with his
 * signal. Throws the signal's reason.
 */
async function notLonger<Value>(found: Promise<Value>, signal: AbortSignal): Promise<Value> {
  const { promise, reject } = Promise.withResolvers<never>()
  const gone = () => reject(signal.reason)
  signal.addEventListener('abort', gone, { once: true })
  try {
    if (signal.aborted) gone()
    return await Promise.race([found, promise])
  } finally {
    signal.removeEventListener('abort', gone)
  }
}

function unresolvable(cause?: unknown): SluiceError {
  return new SluiceError('TRANSIENT', 'the host name cannot be resolved', {
    code: 'host_not_found',
    remedy: 'Check the host name, and the DNS that this server uses.',
    cause,
  })
}

/**
 * The one spelling of an address, by which two are compared: an IPv6 address has many, and `::ffff:a00:1` is 10.0.0.1.
 */
function canonical(address: string): readonly [string, 4 | 6] {
  if (isIP(address) !== 6) return [address, 4]
  const [unscoped = ''] = address.split('%')
  const spelled = new SocketAddress({ address: unscoped, family: 'ipv6' }).address
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/.exec(spelled)
  if (mapped) return [mapped[1] as string, 4]
  return [unscoped === address ? spelled : address, 6]
}

const EMBEDDING_LISTS = EMBEDDING.map(([network, prefix, family, word]) => ({
  list: blockList([[network, prefix, family]]),
  word,
}))

/** The IPv4 address that a translator or relay would go on to; null where there is none. */
function embeddedIn(address: string, family: 'ipv4' | 'ipv6'): string | null {
  const found = EMBEDDING_LISTS.find(({ list }) => list.check(address, family))
  if (found === undefined) return null
  const words = wordsOf(address)
  return words
    .slice(found.word, found.word + 2)
    .flatMap((word) => [word >> 8, word & 0xff])
    .join('.')
}

/** The eight numbers of an IPv6 address in its canonical spelling, which may end as an IPv4 address. */
function wordsOf(address: string): readonly number[] {
  const hex = address.replace(/(\d+)\.(\d+)\.(\d+)\.(\d+)$/, (_, ...bytes: string[]) => {
    const [a = 0, b = 0, c = 0, d = 0] = bytes.slice(0, 4).map(Number)
    return `${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`
  })
  const [head = '', tail = ''] = hex.split('::')
  const numbers = (part: string) => (part === '' ? [] : part.split(':').map((word) => Number.parseInt(word, 16)))
  const [before, after] = [numbers(head), numbers(tail)]
  return [...before, ...Array<number>(8 - before.length - after.length).fill(0), ...after]
}

function blockList(ranges: Ranges): BlockList {
  const list = new BlockList()
  for (const [network, prefix, family] of ranges) list.addSubnet(network, prefix, family)
  return list
}

function addCidr(list: BlockList, range: string): void {
  const [network = '', prefix] = range.split('/')
  const family = isIP(network)
  const bits = Number(prefix ?? (family === 6 ? 128 : 32))
  if (family === 0 || !Number.isInteger(bits)) {
    throw new SluiceError('CONFIG', `"${range}" under network.allow is no address range`, {
      code: 'invalid_config',
      remedy: 'Write a range as 10.1.0.0/16.',
    })
  }
  list.addSubnet(network, bits, family === 6 ? 'ipv6' : 'ipv4')
}
