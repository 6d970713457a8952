// SPDX-License-Identifier: GPL-2.0
/*
 * A map of pages whose own pages are made when they are first used.
 *
 * The map has 64 bytes for each page of memory: 16 MiB for a machine of 1 GiB, all of which would be written during the
 * boot, although an idle machine uses few of its pages. Free memory is in blocks of 1,024 pages, of which the allocator
 * touches the first. So most pages of the map would hold nothing but the initial state of free pages.
 *
 * Here the kernel has no access to the pages of the map at first. The first access is a SIGSEGV, whose handler makes the
 * page, before it does anything else: the access may be in a place that no interrupt may enter.
 */

#include <linux/bitmap.h>
#include <linux/memblock.h>
#include <linux/mm.h>
#include <asm/lazy_memmap.h>
#include <asm/page.h>
#include <os.h>

/* The whole pages of the map. */
static unsigned long map_start, map_end;
static unsigned long *present;
/* The references of a page of memory whose page of the map is made: 1 until free memory is given to the allocator. */
static int initial_count = 1;

static unsigned long index_of(unsigned long address)
{
	return (address - map_start) >> PAGE_SHIFT;
}

static bool is_lazy(unsigned long address)
{
	return address >= map_start && address < map_end;
}

void __init memmap_make_lazy(void *map, unsigned long size)
{
	unsigned long start = PAGE_ALIGN((unsigned long)map);
	unsigned long end = ((unsigned long)map + size) & PAGE_MASK;
	unsigned long pages = (end - start) >> PAGE_SHIFT;

	/* No struct page may lie in two pages of the map. */
	if (PAGE_SIZE % sizeof(struct page) || start % sizeof(struct page) || start >= end)
		return;
	present = memblock_alloc(BITS_TO_LONGS(pages) * sizeof(long), sizeof(long));
	if (!present || os_protect_memory((void *)start, end - start, 0, 0, 0))
		return;
	map_start = start;
	map_end = end;
}

bool memmap_is_absent(const void *page)
{
	unsigned long address = (unsigned long)page;

	return is_lazy(address) && !test_bit(index_of(address), present);
}

void memmap_begin_free(void)
{
	initial_count = 0;
}

static void fill(unsigned long address)
{
	struct page *page = (struct page *)address;
	struct page *end = (struct page *)(address + PAGE_SIZE);

	/* The memory is new, so it holds zeros: machines have one zone, and one node, whose numbers are 0. */
	for (; page < end; page++) {
		set_page_count(page, initial_count);
		atomic_set(&page->_mapcount, -1);
		INIT_LIST_HEAD(&page->lru);
	}
}

/* The host bounds how many parts a process's memory has, so all is made at once if that bound is reached. */
static int populate_all(void)
{
	unsigned long address;

	if (os_protect_memory((void *)map_start, map_end - map_start, 1, 1, 1))
		return 0;
	for (address = map_start; address < map_end; address += PAGE_SIZE)
		if (!test_and_set_bit(index_of(address), present))
			fill(address);
	return 1;
}

int memmap_populate(unsigned long address)
{
	address &= PAGE_MASK;
	if (!memmap_is_absent((void *)address))
		return 0;
	if (os_protect_memory((void *)address, PAGE_SIZE, 1, 1, 1))
		return populate_all();
	__set_bit(index_of(address), present);
	fill(address);
	return 1;
}
