import assert from 'node:assert/strict'
import { networkInterfaces } from 'node:os'
import { describe, it } from 'node:test'
import { createNetworkPolicy, type NetworkRules } from './network.ts'

const RULES: NetworkRules = {
  allowLoopback: false,
  allow: [],
  allowCleartextPasswords: false,
  ownEndpoints: () => [{ address: '127.0.0.1', port: 5432 }],
}

function resolve(host: string, rules: Partial<NetworkRules> = {}, port = 80) {
  return createNetworkPolicy({ ...RULES, ...rules }).resolve(host, port, AbortSignal.timeout(600_000))
}

const REFUSED = { kind: 'PERMISSION', code: 'address_refused' }

describe('where connections may go', () => {
  for (const address of ['8.8.8.8', '2001:4860:4860::8888', '64:ff9b::808:808', '2002:808:808::1', '192.31.196.1']) {
    it(`lets ${address} through as it is`, async () => {
      assert.equal((await resolve(address)).address, address)
    })
  }

  const never = [
    ...['169.254.169.254', '::ffff:169.254.169.254', '::ffff:a9fe:a9fe', 'fd00:ec2::254', 'fe80::1'],
    ...['0.0.0.0', '::', '224.0.0.1', '255.255.255.255', 'ff02::1'],
    ...['::ffff:0:10.0.0.1', '::ffff:0:a00:1', '0:0:0:0:FFFF:0:a00:1'],
    ...['::10.0.0.1', '::7f00:2', '2001::1', 'fec0::1'],
    ...['64:ff9b::7f00:1', '2002:7f00:1::1', '64:ff9b::a9fe:a9fe', '2002:a9fe:a9fe::'],
  ]
  for (const address of never) {
    it(`never lets ${address} through, whatever is allowed`, async () => {
      await assert.rejects(resolve(address, { allow: ['0.0.0.0/0', '::/0'], allowLoopback: true }), REFUSED)
    })
  }

  const inner = [
    ...['10.1.2.3', '172.31.0.1', '192.168.1.1', '100.64.0.1', 'fd12::1'],
    ...['192.0.2.1', '198.51.100.7', '203.0.113.255', '198.18.0.1', '198.19.255.255', '192.88.99.1'],
    ...['2001:db8::1', '2001:2::1', '2001:20::1', '3fff::1', '100::1', '5f00::1', '64:ff9b:1::1', '4000::1'],
    ...['::ffff:10.1.2.3', '::ffff:a01:203', '::ffff:198.18.0.1'],
  ]
  for (const address of inner) {
    it(`refuses ${address} unless its range is allowed`, async () => {
      await assert.rejects(resolve(address), REFUSED)
      assert.ok(await resolve(address, { allow: ['0.0.0.0/0', '::/0'] }))
    })
  }

  it('refuses every port of one of its own whose address does not say which', async () => {
    const ownEndpoints = () => [{ address: '8.8.8.8', port: null }]
    for (const port of [1, 80, 65_535]) await assert.rejects(resolve('8.8.8.8', { ownEndpoints }, port), REFUSED)
    assert.ok(await resolve('8.8.4.4', { ownEndpoints }))
  })

  it('lets nothing through while nobody can say which addresses are its own', async () => {
    const answers: (readonly { address: string }[] | NodeJS.ErrnoException)[] = []
    const lookUp = async () => {
      const answer = answers.shift()
      if (answer === undefined || answer instanceof Error) throw answer ?? new Error('nothing was to be asked')
      return answer
    }
    const failure = (code: string) => Object.assign(new Error(code), { code })
    const ownEndpoints = () => [{ address: 'registry.internal', port: 5432 }]
    const policy = createNetworkPolicy({ ...RULES, allow: ['10.0.0.0/8'], ownEndpoints }, lookUp)
    const to = (address: string, port = 5432) => policy.resolve(address, port, AbortSignal.timeout(600_000))
    answers.push(failure('EAI_AGAIN'))
    await assert.rejects(to('10.0.0.7'), { kind: 'TRANSIENT', code: 'host_not_found' })
    assert.ok(await to('10.0.0.7', 3306))
    answers.push([{ address: '10.0.0.7' }])
    await assert.rejects(to('10.0.0.7'), REFUSED)
    for (const code of ['EAI_AGAIN', 'ENOTFOUND']) {
      answers.push(failure(code), failure(code))
      await assert.rejects(to('10.0.0.7'), REFUSED)
      assert.ok(await to('10.0.0.8'))
    }
    const never = createNetworkPolicy({ ...RULES, allow: ['10.0.0.0/8'], ownEndpoints }, async () => {
      throw failure('ENOTFOUND')
    })
    assert.ok(await never.resolve('10.0.0.7', 5432, AbortSignal.timeout(600_000)))
  })

  for (const address of ['64:ff9b::a00:1', '64:ff9b::10.0.0.1', '2002:a00:1::1', '2002:a00:1:ffff::']) {
    it(`judges ${address} by the address that it leads to`, async () => {
      await assert.rejects(resolve(address), REFUSED)
      await assert.rejects(resolve(address, { allow: ['64:ff9b::/96', '2002::/16'] }), REFUSED)
      assert.ok(await resolve(address, { allow: ['10.0.0.0/8'] }))
      const ownEndpoints = () => [{ address: '10.0.0.1', port: 80 }]
      await assert.rejects(resolve(address, { allow: ['10.0.0.0/8'], ownEndpoints }), REFUSED)
    })
  }

  for (const address of ['127.0.0.1', '127.9.9.9', '::1', '::ffff:127.0.0.1', '::ffff:7f00:1', '2130706433']) {
    it(`refuses loopback as ${address} unless it is allowed`, async () => {
      await assert.rejects(resolve(address), REFUSED)
      assert.ok(await resolve(address, { allowLoopback: true }))
    })
  }

  for (const address of ['127.0.0.1', '127.0.0.2', 'localhost', '::1', '::ffff:127.0.0.1', '::ffff:7f00:1']) {
    it(`refuses the platform's own server as ${address}, but not its neighbours`, async () => {
      const rules = { allowLoopback: true, allow: ['127.0.0.0/8', '::1/128'] }
      await assert.rejects(resolve(address, rules, 5432), REFUSED)
      assert.ok(await resolve(address, rules, 5433))
    })
  }

  it('knows the platform’s own servers by every spelling of their addresses', async () => {
    const spellings: readonly (readonly [own: string, others: readonly string[]])[] = [
      ['10.0.0.5', ['10.0.0.5', '::ffff:10.0.0.5', '::ffff:a00:5', '::FFFF:A00:5', '0:0:0:0:0:ffff:a00:5']],
      ['::FFFF:A00:5', ['10.0.0.5', '::ffff:a00:5', '0:0:0:0:0:ffff:10.0.0.5']],
      ['2001:DB8:0:0::A', ['2001:db8::a', '2001:DB8::A', '2001:0db8:0000:0000:0000:0000:0000:000a']],
      ['2001:db8::a', ['2001:DB8:0:0:0:0:0:A']],
    ]
    const allow = ['10.0.0.0/8', '::/0']
    for (const [own, others] of spellings) {
      const ownEndpoints = () => [{ address: own, port: 5432 }]
      for (const other of others) {
        await assert.rejects(resolve(other, { allow, ownEndpoints }, 5432), REFUSED, `${own} as ${other}`)
        assert.ok(await resolve(other, { allow, ownEndpoints }, 5433))
      }
    }
  })

  it('knows the platform’s own servers by name too, and by each loopback address when they listen on all', async () => {
    const rules = { allowLoopback: true, allow: ['127.0.0.0/8', '::1/128'] }
    for (const own of ['localhost', '0.0.0.0', '::', '::1', '127.0.0.1']) {
      const ownEndpoints = () => [{ address: own, port: 5432 }]
      await assert.rejects(resolve('127.0.0.1', { ...rules, ownEndpoints }, 5432), REFUSED, own)
      assert.ok(await resolve('127.0.0.1', { ...rules, ownEndpoints }, 5433))
    }
    const ownEndpoints = () => [{ address: 'no-such-name.invalid', port: 5432 }]
    assert.ok(await resolve('127.0.0.1', { ...rules, ownEndpoints }, 5432))
  })

  it('knows its own servers by each address of this machine when they listen on all', async () => {
    const here = Object.values(networkInterfaces())
      .flatMap((found) => found ?? [])
      .filter(({ internal, scopeid }) => !internal && !scopeid)
    const allow = ['0.0.0.0/0', '::/0']
    for (const { address } of here) {
      for (const own of ['0.0.0.0', '::']) {
        const ownEndpoints = () => [{ address: own, port: 5432 }]
        await assert.rejects(resolve(address, { allow, ownEndpoints }, 5432), REFUSED, `${own} as ${address}`)
        assert.ok(await resolve(address, { allow, ownEndpoints }, 5433))
      }
      assert.ok(await resolve(address, { allow }, 5432), 'what listens on loopback is not met there')
    }
  })

  it('refuses what is no host name, without asking anybody', async () => {
    for (const host of ['', 'a b', '-x', 'http://x', 'x/y']) {
      await assert.rejects(resolve(host), { code: 'host_not_found' })
    }
  })

  it('refuses to start with a range that is none', () => {
    for (const range of ['10.0.0.0/x', 'example.com/8', '']) {
      assert.throws(() => createNetworkPolicy({ ...RULES, allow: [range] }), { code: 'invalid_config' })
    }
  })

  it('takes passwords in clear to loopback only', () => {
    const policy = createNetworkPolicy(RULES)
    assert.equal(policy.allowsCleartextPassword('127.0.0.1'), true)
    assert.equal(policy.allowsCleartextPassword('::1'), true)
    assert.equal(policy.allowsCleartextPassword('8.8.8.8'), false)
    assert.equal(
      createNetworkPolicy({ ...RULES, allowCleartextPasswords: true }).allowsCleartextPassword('8.8.8.8'),
      true,
    )
  })
})

it('whoever waits for a name that nobody tells goes with his signal', async () => {
  const never = () => new Promise<never>(() => undefined)
  const policies = {
    'the name that is asked for': createNetworkPolicy(RULES, never),
    'a name of our own': createNetworkPolicy(
      { ...RULES, ownEndpoints: () => [{ address: 'registry.internal', port: null }] },
      (host) => (host === 'registry.internal' ? never() : Promise.resolve([{ address: '8.8.8.8' }])),
    ),
  }
  for (const [what, policy] of Object.entries(policies)) {
    const gone = new AbortController()
    const found = policy.resolve('receiver.test', 443, gone.signal)
    await new Promise((resolve) => setImmediate(resolve))
    gone.abort(new Error('gone'))
    await assert.rejects(found, { message: 'gone' }, what)
  }
})
