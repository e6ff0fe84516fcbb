// lifecycle.mjs - sandboxes of the npm package: create, list, connect, timeouts, end.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { e2b } from './kit.mjs'

const { Sandbox } = e2b

test('a sandbox from its creation to its end', async () => {
  const made = await Sandbox.create('base', { metadata: { mark: 'a b=c&d' }, timeoutMs: 100000, envs: { X: 'y' } })
  try {
    assert.equal((await made.commands.run('echo $X')).stdout, 'y\n')
    assert.equal(await made.isRunning(), true)
    const info = await Sandbox.getInfo(made.sandboxId)
    assert.deepEqual(info.metadata, { mark: 'a b=c&d' })
    const again = await Sandbox.connect(made.sandboxId)
    assert.equal(again.sandboxId, made.sandboxId)
    await made.setTimeout(200000)
    assert.ok((await made.getInfo()).endAt > info.endAt)
    const pages = Sandbox.list({ query: { metadata: { mark: 'a b=c&d' } }, limit: 1 })
    assert.deepEqual((await pages.nextItems()).map((one) => one.sandboxId), [made.sandboxId])
    assert.equal(made.getHost(3000).startsWith(`3000-${made.sandboxId}.`), true)
  } finally {
    assert.ok([true, undefined].includes(await made.kill())) // versions before 2.30 say nothing
  }
  assert.ok([false, undefined].includes(await made.kill()))
  assert.equal(await made.isRunning(), false)
})

test('a template that is not there is refused', async () => {
  await assert.rejects(Sandbox.create('no-such-template'), /404/)
})

test('lists are paged, and metrics are of this moment', async () => {
  const mark = `m${Date.now()}`
  const made = []
  for (let i = 0; i < 3; i++) made.push(await Sandbox.create({ metadata: { mark } }))
  try {
    const pages = Sandbox.list({ query: { metadata: { mark } }, limit: 2 })
    const found = []
    while (pages.hasNext) found.push(...(await pages.nextItems()).map((one) => one.sandboxId))
    assert.deepEqual(found, made.map((one) => one.sandboxId).reverse())
    await made[0].commands.run('true')
    const metrics = await made[0].getMetrics()
    assert.ok(metrics.length > 0 && metrics[0].memTotal > 0 && metrics[0].cpuCount > 0)
    await Sandbox.connect(made[0].sandboxId, { timeoutMs: 1000 })
    assert.ok((await made[0].getInfo()).endAt > new Date(Date.now() + 100000), 'connect never shortens')
  } finally {
    for (const one of made) await one.kill()
  }
})
